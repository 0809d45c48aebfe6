import type { Clock } from '../../kernel/clock.ts'
import { rfc3339 } from '../../kernel/clock.ts'
import type { NodeDifferences } from '../../kernel/edge/edge_nodes.ts'
import type { Log } from '../../kernel/log.ts'
import { plainText } from '../../kernel/text.ts'
import type { Difference } from '../haproxy/comparison/difference.ts'

/** Limit for a report, which is sent every two seconds. */
const shown = 20
const namesPerLine = 100
const maxNameCharacters = 200

type Parts = { log: Log; clock: Clock; onChange: () => void }

/** Changes that another program made in HAProxy. The log has all of them, the report the latest. */
export function createDifferences({ log, clock, onChange }: Parts) {
  let found = 0
  let since: number | undefined
  let agreedAt: number | undefined
  let latest: NodeDifferences['latest'] = []

  return {
    note(differences: readonly Difference[]): void {
      const at = clock()
      since ??= at
      found += differences.length
      const named = differences.map(({ what, name, kind }) => ({
        what,
        name: plainText(name, maxNameCharacters),
        kind,
        at: rfc3339(at),
      }))
      latest = [...latest, ...named.slice(-shown)].slice(-shown)
      for (let from = 0; from < named.length; from += namesPerLine) {
        const differ = named.slice(from, from + namesPerLine).map(({ what, name, kind }) => `${kind}: ${what} ${name}`)
        log.error({ differ }, 'HAProxy was changed by another program; repairing it')
      }
      onChange()
    },
    /** Everything was compared and matches. */
    agree(): void {
      agreedAt = clock()
      if (since === undefined) return
      since = undefined
      log.info({ found }, 'HAProxy is as it should be again')
      onChange()
    },
    state: (): NodeDifferences => ({
      found,
      since: since === undefined ? null : rfc3339(since),
      agreedAt: agreedAt === undefined ? null : rfc3339(agreedAt),
      latest,
    }),
  }
}
export type Differences = ReturnType<typeof createDifferences>
