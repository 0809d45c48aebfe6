import { isForEveryAnswer } from '../../../kernel/edge/headers.ts'

/**
 * Header operations as HAProxy's own actions read them, del-headers-bin and set-headers-bin: names, or names and
 * values, each behind its length, and a zero after the last. In base64, because a map line is text: `where the second list
 * begins|names to delete|headers to set`, so that HAProxy need not search for it.
 *
 * Undefined where only Lua does what the operations say: HAProxy's actions pass over headers that frame a message, and
 * a new Host is another request.
 */
export function headerLists(add: readonly [string, string][], remove: readonly string[]): string | undefined {
  const added = add.map(([name, value]): [string, string] => [name.toLowerCase(), value])
  const named = new Set([...added.map(([name]) => name), ...remove].map(undisguised))
  if ([...named].some((name) => leftToLua.test(name))) return undefined
  // A header that is set replaces those of its own name. What clients said about themselves has gone by now, so that all
  // of x-forwarded is the edge's own.
  const replaced = new Set(added.map(([name]) => name))
  const gone = [...named].filter((name) => !replaced.has(name) && !name.startsWith('x-forwarded-'))
  const deleted = `${gone.map(measured).join('')}\0`
  const set = `${added.flat().map(measured).join('')}\0\0`
  const before = `|${base64(deleted)}|`
  return `${String(digits + before.length).padStart(digits, '0')}${before}${base64(set)}`
}

/**
 * The same for responses: `names to delete|headers to set|headers to add|headers that the edge's own answers get too|.`, where
 * the dot says that nothing is missing. Set-Cookie is added: a response may have several, and one more must not end the
 * sessions of an upstream.
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
/** HAProxy's converters for the parts of it. */
export const responseList = (part: 'deleted' | 'set' | 'added' | 'everywhere'): string =>
  `field(${['deleted', 'set', 'added', 'everywhere'].indexOf(part) + 1},|),b64dec`
export const endOfLists = '|.'

/** Width of the number that says where the second list begins. */
const digits = 5

const leftToLua = /^(?:connection|content-length|expect|host|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade)$/

/** Many servers take `_` for `-`, and some take any other character for it: a name in disguise is the name. */
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
