import { type EntryLayout, entryLayout } from './entries.ts'

/** Stands in a quoted string, and in the argument of a converter: nothing that either could read as its own. */
export function quoted(path: string): string {
  if (!/^[\w./@:+~-]+$/.test(path)) throw new Error(`HAProxy cannot be given a path like ${JSON.stringify(path)}`)
  return `"${path}"`
}

/** Parts of an entry begin at fixed places (entries.ts): `field` would read everything before them, byte by byte. */
export const part = (entry: EntryVariable, name: keyof EntryLayout) => {
  const { from, length } = entryLayout[entry === 'sess.entry' ? 'edgtcp' : 'edghtsrt'][name]
  return `var(${entry}),bytes(${[from, ...(length ? [length] : [])]})`
}
/** A TCP edge is looked up before there is a transaction; a route is looked up for every request. */
export type EntryVariable = 'sess.entry' | 'txn.entry' | 'txn.literal'
