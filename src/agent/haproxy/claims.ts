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
    const before = new Map(mapNames.map((map) => [map, new Map<string, string | undefined>()]))
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
    for (const [map, keys] of before) {
      for (const [key, old] of keys) {
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

  holder(map: MapName, key: string): string | undefined {
    const claims = this.maps[map].get(key)
    return typeof claims === 'string' ? claims : claims?.[0]
  }

  *entries(map: MapName): Generator<[key: string, value: string]> {
    for (const [key, claims] of this.maps[map]) yield [key, typeof claims === 'string' ? claims : (claims[0] as string)]
  }

  keys(map: MapName): Iterable<string> {
    return this.maps[map].keys()
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
