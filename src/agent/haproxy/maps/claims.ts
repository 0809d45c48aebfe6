import { type Entry, type MapName, mapNames, type PartName, partNames } from './entries.ts'

type Name = MapName | PartName

/** Changes for HAProxy, one command each. */
export type Command =
  | { readonly kind: 'add' | 'set'; readonly map: MapName; readonly key: string; readonly value: string }
  | { readonly kind: 'del'; readonly map: MapName; readonly key: string }

/**
 * All entries in force. Two records may claim one key: two TCP edges with different names and the same port, for
 * one. Values begin with an id, ids with a time, and the smallest value holds the key: the older record keeps it,
 * independent of the order of arrival, and when it goes the other takes over.
 */
export class Claims {
  private maps = emptyMaps()
  private readonly onChange: (entry: Entry, isThere: boolean) => void

  /** `onChange` is called for each claim that comes or goes, whether it holds its key or not. */
  constructor(onChange: (entry: Entry, isThere: boolean) => void = () => {}) {
    this.onChange = onChange
  }

  /** Returns the changes for HAProxy; the claims are updated when it returns. */
  change({ set, del }: { set: Iterable<Entry>; del: Iterable<Entry> }): Command[] {
    const before = new Map<Name, Map<string, string | undefined>>(mapNames.map((map) => [map, new Map()]))
    const note = ({ map, key }: Entry) => {
      const keys = before.get(map)
      if (!keys?.has(key)) keys?.set(key, this.holder(map, key))
    }
    for (const entry of del) {
      note(entry)
      this.remove(entry)
    }
    for (const entry of set) {
      note(entry)
      this.insert(entry)
    }
    const commands: Command[] = []
    for (const map of mapNames) {
      for (const [key, old] of before.get(map) ?? []) {
        const value = this.holder(map, key)
        if (value === undefined && old !== undefined) commands.push({ kind: 'del', map, key })
        else if (value !== undefined && value !== old)
          commands.push({ kind: old === undefined ? 'add' : 'set', map, key, value })
      }
    }
    return commands
  }

  replace(all: Iterable<Entry>): void {
    this.maps = emptyMaps()
    for (const entry of all) this.insert(entry)
  }

  holder(map: Name, key: string): string | undefined {
    const claims = this.maps[map].get(key)
    return typeof claims === 'string' ? claims : claims?.[0]
  }

  *entries(map: MapName): Generator<[key: string, value: string]> {
    for (const [key, claims] of this.maps[map]) yield [key, typeof claims === 'string' ? claims : (claims[0] as string)]
  }

  keys(map: MapName): Iterable<string> {
    return this.maps[map].keys()
  }

  size = (map: MapName): number => this.maps[map].size

  private insert(entry: Entry): void {
    const { map, key, value } = entry
    const claims = this.maps[map].get(key)
    if (claims === undefined) this.maps[map].set(key, value)
    else {
      const sorted = typeof claims === 'string' ? [claims] : claims
      const at = placeIn(sorted, value)
      if (sorted[at] === value) return
      sorted.splice(at, 0, value)
      this.maps[map].set(key, sorted)
    }
    this.onChange(entry, true)
  }

  private remove(entry: Entry): void {
    const { map, key, value } = entry
    const claims = this.maps[map].get(key)
    const sorted = typeof claims === 'string' ? [claims] : (claims ?? [])
    const at = placeIn(sorted, value)
    if (sorted[at] !== value) return
    sorted.splice(at, 1)
    if (sorted.length === 0) this.maps[map].delete(key)
    else if (sorted.length === 1) this.maps[map].set(key, sorted[0] as string)
    this.onChange(entry, false)
  }
}

/** Where it is in the sorted list, or belongs. All restricted routes of an edge claim one key, and there may be a thousand. */
function placeIn(sorted: readonly string[], value: string): number {
  let [low, high] = [0, sorted.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if ((sorted[middle] as string) < value) low = middle + 1
    else high = middle
  }
  return low
}

/** Nearly every key has one claim, which is kept as it is: 100,000 lists of one would be twice the memory. */
function emptyMaps(): Record<Name, Map<string, string | string[]>> {
  return Object.fromEntries([...mapNames, ...partNames].map((name) => [name, new Map()])) as Record<
    Name,
    Map<string, string | string[]>
  >
}
