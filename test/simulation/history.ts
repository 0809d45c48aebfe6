import { Claims } from '../../src/agent/haproxy/maps/claims.ts'
import { entriesOf, type MapName, mapNames, readyKey } from '../../src/agent/haproxy/maps/entries.ts'
import { kindOf, type PolicyRecord, type RecordKey } from '../../src/distribution/records.ts'
import type { Maps } from './haproxy.ts'
import type { Postgres, Writes } from './postgres.ts'
import { entryOf, preparedOf } from './things.ts'

/** How a record was from one generation on: as HAProxy shows it, or not there. */
type Version = { generation: number; text: string | undefined }
type Past = { place: { map: MapName; key: string } | undefined; versions: Version[] }

/** What a node has shown so far: of each record, which version at least. */
export type Shown = Map<RecordKey, number>

/** Everything that was ever committed for a wave, to be compared with what its nodes serve. */
export function createHistory(postgres: Postgres, wave: number) {
  const pasts = new Map<RecordKey, Past>()
  let isRestored = false

  postgres.onCommit((to: number, generation: number, writes: Writes) => {
    if (to !== wave) return
    for (const [key, thing] of writes) {
      const past = pasts.get(key) ?? { place: undefined, versions: [{ generation: 0, text: undefined }] }
      pasts.set(key, past)
      const entry = thing ? entryOf(key, thing.value) : undefined
      if (entry) past.place = entry
      past.versions.push({ generation, text: entry?.value })
    }
  })
  postgres.onRestore(() => {
    isRestored = true
  })

  function servedIn(maps: Maps, key: RecordKey, { place }: Past): string | undefined {
    const text = place && maps.get(place.map)?.get(place.key)
    const kind = kindOf(key)
    // Another record may stand there instead.
    if (kind !== 'route' && kind !== 'https') return text
    return text?.startsWith(key.slice(kind.length + 1)) ? text : undefined
  }

  return {
    /**
     * Why this cannot be what a node serves that has said to have applied everything up to a generation: each record has to
     * be as it was then or later, and never as it was before what the node has shown already.
     */
    fault(maps: Maps, applied: number, shown: Shown, refused: ReadonlySet<string>): string | undefined {
      // Nothing is served before the node says that it is ready.
      if (isRestored || maps.get('node')?.get(readyKey) === undefined) return undefined
      for (const [key, past] of pasts) {
        const { versions } = past
        const served = servedIn(maps, key, past)
        const atLeast = postgres.lost.has(key) ? 0 : (shown.get(key) ?? 0)
        const found = versions.findIndex((version, index) => index >= atLeast && version.text === served)
        if (found < 0)
          return versions.some(({ text }) => text === served)
            ? `${key} is served as it was before what the node served already: ${served ?? 'not there'}`
            : `${key} is served as it never was: ${served ?? 'not there'}`
        shown.set(key, found)
        if (refused.has(key) || postgres.lost.has(key)) continue
        const isCurrent = versions.some(
          ({ text }, index) =>
            text === served && (versions[index + 1]?.generation ?? Number.POSITIVE_INFINITY) > applied,
        )
        if (!isCurrent) {
          const [last] = versions.filter(({ generation }) => generation <= applied).slice(-1)
          return `${key} is ${served ?? 'not there'}, although the node says that it has applied generation ${applied}, and ${key} is ${last?.text ?? 'deleted'} since generation ${last?.generation}`
        }
      }
      return undefined
    },
    /** The first difference between what HAProxy has and what it should have by the database; undefined when it is right. */
    difference(maps: Maps, hasFile: (hash: string, bytes: number) => boolean): string | undefined {
      const claims = new Claims()
      const things = postgres.things(wave)
      claims.replace([...things].flatMap(([key, { value }]) => entriesOf(key, preparedOf(key, value))))
      for (const map of mapNames) {
        const wanted = map === 'node' ? new Map([[readyKey, 'yes']]) : new Map(claims.entries(map))
        const found = maps.get(map)
        for (const [key, value] of wanted)
          if (found?.get(key) !== value)
            return `${map} ${key} is ${found?.get(key) ?? 'missing'}, and should be ${value}`
        for (const key of found?.keys() ?? []) if (!wanted.has(key)) return `${map} ${key} should not be there`
      }
      for (const [key, { value }] of things) {
        if (kindOf(key) !== 'policy') continue
        const { hash, bytes } = value as PolicyRecord
        if (!hasFile(hash, bytes)) return `the file of ${key} is missing or damaged`
      }
      return undefined
    },
  }
}
export type History = ReturnType<typeof createHistory>
