import { validateHeaderName, validateHeaderValue } from 'node:http'

export type Sent = { add: Record<string, string>; remove: string[] }

// Written from RFC 9110, sections 5.1, 5.5 and 5.6.2, and from the contract; nothing here is shared with the code.
const tchar = "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
const hopByHop = [
  'connection',
  'content-length',
  'expect',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]
const edgeSets = ['x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto']

const passes = (check: () => void): boolean => {
  try {
    check()
    return true
  } catch {
    return false
  }
}

/** ASCII only, so that no letter of another script becomes one of ours; and `_` is `-` to many servers. */
const plain = (name: string) => name.replaceAll(/[A-Z]/g, (letter) => letter.toLowerCase()).replaceAll('_', '-')

function isName(name: string, list: 'add' | 'remove'): boolean {
  const isToken = name.length > 0 && [...name].every((character) => tchar.includes(character))
  // Node must agree with our reading of the RFC, or one of the two is wrong and the test must say so.
  if (isToken !== passes(() => validateHeaderName(name)))
    throw new Error(`Node reads ${JSON.stringify(name)} otherwise`)
  const read = plain(name)
  const reserved = [...hopByHop, ...edgeSets].includes(read) || read.startsWith('proxy-')
  return isToken && Buffer.byteLength(name) <= 256 && !reserved && !(list === 'remove' && read === 'host')
}

function isValue(value: string): boolean {
  const isFieldContent = /^(?:[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)?$/.test(value)
  if (isFieldContent && !passes(() => validateHeaderValue('x', value)))
    throw new Error(`Node refuses ${JSON.stringify(value)}`)
  return isFieldContent && Buffer.byteLength(value) <= 4096
}

/** Every place that is at fault. It may be accepted exactly when there is none. */
export function faultyPlaces({ add, remove }: Sent): Set<string> {
  const places = new Set<string>()
  const [added, removed] = [Object.entries(add), [...remove.entries()]]
  if (added.length > 50) places.add('add')
  if (removed.length > 50) places.add('remove')
  const lists = [
    added.map(([name, value]) => ({ place: `add.${name}`, name, fine: isName(name, 'add') && isValue(value) })),
    removed.map(([index, name]) => ({ place: `remove[${index}]`, name, fine: isName(name, 'remove') })),
  ]
  for (const entries of lists) {
    const seen = new Set<string>()
    for (const { place, name, fine } of entries) {
      const key = name.toLowerCase()
      if (!fine || seen.has(key)) places.add(place)
      seen.add(key)
    }
  }
  if (places.size > 0) return places
  // Each text as a URL would carry it, and something between it and the next.
  const plainest = new Set('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._~:/+*@,!()-')
  const size = (texts: string[]) =>
    texts.reduce((sum, text) => sum + 1 + [...text].reduce((bytes, each) => bytes + (plainest.has(each) ? 1 : 3), 0), 0)
  const [adding, removing] = [size(added.flat()), size(remove)]
  if (adding + removing > 12_000) places.add(adding > removing ? 'add' : 'remove')
  return places
}
