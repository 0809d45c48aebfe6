import { type Entry, type MapName, mapNames } from './entries.ts'

/** Changes for HAProxy, one command each. */
export type Command =
  | { readonly kind: 'add' | 'set'; readonly map: MapName; readonly key: string; readonly value: string }
  | { readonly kind: 'del'; readonly map: MapName; readonly key: string }

/**
 * All entries in force. Two records may claim one key: two TCP edges with different names and the same port, for
 * one. Values begin with an id, ids with a time, and the smallest value holds the key: whoever was there first keeps
 * it, in whatever order records arrive, and when it goes the other takes over.
 */
export class Claims {
  private maps = emptyMaps()

  /** Returns the changes for HAProxy; the claims are updated when it returns. */
  change({ set, del }: { set: Iterable<Entry>; del: Iterable<Entry> }): Command[] {
    const before = new Map<string, { map: MapName; key: string; value: string | undefined }>()
    const note = ({ map, key }: Entry) => {
      const name = `${map} ${key}`
      if (!before.has(name)) before.set(name, { map, key, value: this.holder(map, key) })
    }
    for (const entry of del) {
      note(entry)
      this.remove(entry)
    }
    for (const entry of set) {
      note(entry)
      this.insert(entry)
    }
    return [...before.values()].flatMap(({ map, key, value: old }): Command[] => {
      const value = this.holder(map, key)
      if (value === old) return []
      if (value === undefined) return [{ kind: 'del', map, key }]
      return [{ kind: old === undefined ? 'add' : 'set', map, key, value }]
    })
  }

  replace(all: Iterable<Entry>): void {
    this.maps = emptyMaps()
    for (const entry of all) this.insert(entry)
  }

  holder(map: MapName, key: string): string | undefined {
    const claims = this.maps[map].get(key)
    return typeof claims === 'string' ? claims : claims?.[0]
  }

  *entries(map: MapName): Generator<[key: string, value: string]> {
    for (const [key, claims] of this.maps[map]) yield [key, typeof claims === 'string' ? claims : (claims[0] as string)]
  }

  size(map: MapName): number {
    return this.maps[map].size
  }

  private insert({ map, key, value }: Entry): void {
    const claims = this.maps[map].get(key)
    if (claims === undefined) this.maps[map].set(key, value)
    else if (typeof claims !== 'string') this.maps[map].set(key, [...new Set([...claims, value])].sort())
    else if (claims !== value) this.maps[map].set(key, [claims, value].sort())
  }

  private remove({ map, key, value }: Entry): void {
    const claims = this.maps[map].get(key)
    const left = typeof claims === 'string' ? [claims] : (claims ?? [])
    const others = left.filter((each) => each !== value)
    if (others.length === 0) this.maps[map].delete(key)
    else this.maps[map].set(key, others.length === 1 ? (others[0] as string) : others)
  }
}

/** Nearly every key has one claim, which is kept as it is: 100,000 lists of one would be twice the memory. */
function emptyMaps(): Record<MapName, Map<string, string | string[]>> {
  return Object.fromEntries(mapNames.map((name) => [name, new Map()])) as Record<
    MapName,
    Map<string, string | string[]>
  >
}
