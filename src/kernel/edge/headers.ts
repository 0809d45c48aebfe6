/** Limits of the header modules, shared by the API and the nodes. */
export type HeaderOperations = { readonly add: Readonly<Record<string, string>>; readonly remove: readonly string[] }

/**
 * Sorts headers by name for edges: JSON does not order them and the audit log does not keep an order, so undoing a
 * change would otherwise produce a different record.
 */
export const inOrder = (headers: HeaderOperations['add']): [name: string, value: string][] =>
  Object.entries(headers).sort(([one], [other]) => (one < other ? -1 : 1))

/** Whether the headers belong to requests or responses. */
export type Message = 'request' | 'response'

/** `allBytes`: limited by the proxy's buffer and by the size of one of its commands. */
export const headerLimits = { entries: 50, nameBytes: 256, valueBytes: 4096, allBytes: 12_000 } as const

const token = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
export const headerNamePattern = token.source
/** The part of the rules for names that JSON Schema can express. */
const nameSchema = { type: 'string', pattern: headerNamePattern, maxLength: headerLimits.nameBytes } as const
/** The part of the rules that JSON Schema can express; the functions below check the rest. */
export const headerSchemas = {
  map: { maxProperties: headerLimits.entries, propertyNames: nameSchema },
  names: { maxItems: headerLimits.entries, items: nameSchema },
} as const
const printable = /^[\x20-\x7e]*$/

// Framing and connection headers belong to the connection. Upstreams trust the headers that the edge sets about the
// client, because clients cannot set them.
const forbidden = new Set([
  'connection',
  'content-length',
  'expect',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'x-forwarded-for',
  'x-forwarded-host',
  'x-forwarded-proto',
])
/** Identifies the request to the client, the upstream and the request log. */
const forbiddenInResponses = new Set(['x-request-id'])

/**
 * Whether the edge's own responses also get a response header of the route. Only headers that restrict what a page may
 * do: others describe the upstream's content, and its `Cache-Control` would cache a refusal for as long as the content.
 */
export const isForEveryAnswer = (name: string): boolean => everyAnswer.test(name)
const everyAnswer =
  /^(?:strict-transport-security|content-security-policy(?:-report-only)?|x-frame-options|x-content-type-options|referrer-policy|permissions-policy|cross-origin-[a-z-]+|access-control-[a-z-]+|timing-allow-origin|x-robots-tag)$/i

/** Many servers treat `_` as `-`, so both spellings count as the same name. */
const undisguised = (name: string): string => name.toLowerCase().replaceAll('_', '-')

/** Completes the sentence '<field> …'; undefined if the name is allowed. */
export function headerNameFault(
  name: string,
  operation: 'add' | 'remove',
  message: Message = 'request',
): string | undefined {
  if (!token.test(name)) return "must have a name that is an RFC 9110 token (letters, digits and !#$%&'*+-.^_`|~)"
  if (name.length > headerLimits.nameBytes) return `must have a name of at most ${headerLimits.nameBytes} bytes`
  const plain = undisguised(name)
  const isReserved = message === 'response' && forbiddenInResponses.has(plain)
  if (isReserved || forbidden.has(plain) || plain.startsWith('proxy-'))
    return 'is a header that only the edge itself can set or remove'
  if (message === 'request' && operation === 'remove' && plain === 'host')
    return 'cannot be removed, because a request without Host is not valid. Add Host to rewrite it'
  return undefined
}

/** Checks a header of a response that the edge sends itself. */
export const responseHeaderFault = (name: string, value: string): string | undefined =>
  headerNameFault(name, 'add', 'response') ?? headerValueFault(value)

export function headerValueFault(value: string): string | undefined {
  if (!printable.test(value)) return 'must have a value of printable ASCII'
  if (value !== value.trim()) return 'must not have a value that begins or ends with a space'
  if (value.length > headerLimits.valueBytes) return `must have a value of at most ${headerLimits.valueBytes} bytes`
  return undefined
}

/** The first invalid entry and the reason. */
export function headersFault(
  { add, remove }: HeaderOperations,
  message: Message = 'request',
): { place: string; fault: string } | undefined {
  const added = Object.entries(add)
  for (const [list, size] of [
    ['add', added.length],
    ['remove', remove.length],
  ] as const) {
    if (size > headerLimits.entries) return { place: list, fault: `must have at most ${headerLimits.entries} entries` }
  }
  const places = new Map<string, string>()
  const twice = (list: string, name: string, place: string) => {
    const key = `${list} ${name.toLowerCase()}`
    const first = places.get(key)
    places.set(key, place)
    return first === undefined ? undefined : `names the same header as ${first}`
  }
  for (const [name, value] of added) {
    const place = `add.${name}`
    const fault = headerNameFault(name, 'add', message) ?? headerValueFault(value) ?? twice('add', name, place)
    if (fault) return { place, fault }
  }
  for (const [index, name] of remove.entries()) {
    const place = `remove[${index}]`
    const fault = headerNameFault(name, 'remove', message) ?? twice('remove', name, place)
    if (fault) return { place, fault }
  }
  const bytes = { add: encodedSize(added.flat()), remove: encodedSize(remove) }
  if (bytes.add + bytes.remove > headerLimits.allBytes)
    return {
      place: bytes.add > bytes.remove ? 'add' : 'remove',
      fault: `must be smaller: all names and values together take ${bytes.add + bytes.remove} bytes and the limit is ${headerLimits.allBytes}. Characters other than letters, digits and ._~:/+*@,!()- count as three bytes, and each name and value counts one more`,
    }
  return undefined
}

// An underscore at the start or after a separator, and no capital: `X-Frame-Options` arrives as `_x-_frame-_options`.
const mangled = /^(?=[^A-Z]*$)(?:.*[^a-z0-9])?_[a-z]/

/** The vendor's TypeScript client converts the keys of every object to snake case, including header names. */
export function mangledNameFault(add: HeaderOperations['add']): { place: string; fault: string } | undefined {
  const name = Object.keys(add).find((one) => mangled.test(one))
  if (name === undefined) return undefined
  const fault =
    'looks like a header name that a client library has rewritten. Write names in lower case, or use another client'
  return { place: `add.${name}`, fault }
}

/**
 * Percent-encodes all but the plainest characters, so that map lines, commands and Lua need no escaping of their own.
 */
export const encodeHeaderText = (text: string): string =>
  text.replaceAll(
    /[^A-Za-z0-9._~:/+*@,!()-]/g,
    (character) => `%${character.charCodeAt(0).toString(16).padStart(2, '0')}`,
  )

/** Size of texts in that encoding. */
export const encodedSize = (texts: readonly string[]): number =>
  texts.reduce((sum, text) => sum + encodeHeaderText(text).length + 1, 0)
