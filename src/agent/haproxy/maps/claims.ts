import { type Entry, type MapName, mapNames, type PartName, partNames } from './entries.ts'

type Name = MapName | PartName

/** Changes for HAProxy. Each one becomes a command. */
export type Command =
  | { readonly kind: 'add' | 'set'; readonly map: MapName; readonly key: string; readonly value: string }
  | { readonly kind: 'del'; readonly map: MapName; readonly key: string }

/**
 * All entries in force. Two records may claim the same key, for example two TCP edges with different names and the same
 * port. Values begin with an id, and ids with a time; the smallest value holds the key. So the older record keeps it,
 * regardless of the order of arrival, and the other takes over when the older one goes.
 */
export class Claims {
  private maps = emptyMaps()
  private readonly onChange: (entry: Entry, isThere: boolean) => void

  /** `onChange` is called for every added or removed claim, whether or not it holds its key. */
  constructor(onChange: (entry: Entry, isThere: boolean) => void = () => {}) {
    this.onChange = onChange
  }

  /** Returns the changes for HAProxy. The claims are already updated then. */
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

/**
 * Binary search for its index in the sorted list. All restricted routes of an edge claim one key, and there may be a
 * thousand.
 */
function placeIn(sorted: readonly string[], value: string): number {
  let [low, high] = [0, sorted.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if ((sorted[middle] as string) < value) low = middle + 1
    else high = middle
  }
  return low
}

/** Nearly every key has a single claim, stored without a list: 100,000 lists of one would double the memory. */
function emptyMaps(): Record<Name, Map<string, string | string[]>> {
  return Object.fromEntries([...mapNames, ...partNames].map((name) => [name, new Map()])) as Record<
    Name,
    Map<string, string | string[]>
  >
}
