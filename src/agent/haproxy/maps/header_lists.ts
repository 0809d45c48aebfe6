import { isForEveryAnswer } from '../../../kernel/edge/headers.ts'

/**
 * Encodes header operations for HAProxy's own actions, del-headers-bin and set-headers-bin: names, or names and values,
 * each after its length, with a zero at the end. In base64, because a map line is text: `offset of the second list|names
 * to delete|headers to set`, so that HAProxy does not have to search for it.
 *
 * Undefined if only Lua supports the operations: HAProxy's actions skip headers that frame a message, and a new Host
 * makes it another request.
 */
export function headerLists(add: readonly [string, string][], remove: readonly string[]): string | undefined {
  const added = add.map(([name, value]): [string, string] => [name.toLowerCase(), value])
  const named = new Set([...added.map(([name]) => name), ...remove].map(undisguised))
  if ([...named].some((name) => leftToLua.test(name))) return undefined
  // A header that is set replaces its previous values. The client's own forwarding headers are gone by now, so every
  // x-forwarded header is the edge's.
  const replaced = new Set(added.map(([name]) => name))
  const gone = [...named].filter((name) => !replaced.has(name) && !name.startsWith('x-forwarded-'))
  const deleted = `${gone.map(measured).join('')}\0`
  const set = `${added.flat().map(measured).join('')}\0\0`
  const before = `|${base64(deleted)}|`
  return `${String(digits + before.length).padStart(digits, '0')}${before}${base64(set)}`
}

/**
 * Response operations: `names to delete|headers to set|headers to add|headers that the edge's own answers get too|.`,
 * where the dot marks the end. Set-Cookie is added instead of set: replacing it would end the sessions of an upstream.
 */
export function responseLists(add: readonly [string, string][], remove: readonly string[]): string {
  const added = add.map(([name, value]): [string, string] => [name.toLowerCase(), value])
  const isCookie = ([name]: [string, string]) => name === 'set-cookie'
  const lists = Object.groupBy(added, (each) =>
    isCookie(each) ? 'added' : isForEveryAnswer(each[0]) ? 'everywhere' : 'set',
  )
  const removed = remove.map((name) => measured(name.toLowerCase()))
  const deleted = base64(`${removed.join('')}\0`)
  return [deleted, headersToSet(lists.set), headersToSet(lists.added), headersToSet(lists.everywhere), '.'].join('|')
}
export const headersToSet = (list: readonly (readonly [string, string])[] = []): string =>
  base64(`${list.flat().map(measured).join('')}\0\0`)
export const responseList = (part: 'deleted' | 'set' | 'added' | 'everywhere'): string =>
  `field(${['deleted', 'set', 'added', 'everywhere'].indexOf(part) + 1},|),b64dec`
export const endOfLists = '|.'

/** Width of the offset of the second list. */
const digits = 5

const leftToLua = /^(?:connection|content-length|expect|host|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade)$/

/** Many servers treat `_` as `-`, and some treat any other character so: a disguised name counts as the name. */
const undisguised = (name: string): string => name.toLowerCase().replaceAll(/[^a-z0-9]/g, '-')

const base64 = (bytes: string): string => Buffer.from(bytes, 'latin1').toString('base64')
const measured = (text: string): string => `${varint(text.length)}${text}`

/** HAProxy's own variable-length integer, as in its peers protocol. */
function varint(value: number): string {
  if (value < 240) return String.fromCharCode(value)
  let text = String.fromCharCode((value & 0xff) | 240)
  let rest = (value - 240) >> 4
  for (; rest >= 128; rest = (rest - 128) >> 7) text += String.fromCharCode((rest & 0xff) | 128)
  return text + String.fromCharCode(rest)
}
