import { type ExpiringRules, kindOf, type PolicyRecord, type RecordKey } from '../../distribution/records.ts'
import { openRecord, type TrustedKeys } from '../../distribution/signature.ts'
import { inParallel } from '../../kernel/flow/in_parallel.ts'
import { firstUuidOf, type Uuid } from '../../kernel/ids.ts'
import type { Timing } from '../../kernel/timing.ts'
import type { NatsSink } from '../bucket/nats_sink.ts'
import type { LockedDatabase, PublisherDatabase } from '../database.ts'
import type { Changed } from '../records/changed.ts'
import { type Contents, joinRollouts, type Previous, type Unassigned } from './rollout.ts'
import { openSentGenerations, type SentGenerations } from './sent_generations.ts'

type Parts = {
  locked: Pick<LockedDatabase, 'unassigned' | 'hold'>
  natsSink: Pick<NatsSink, 'contents' | 'stored' | 'storedBlob' | 'confirmIntact'>
  tables: Pick<PublisherDatabase, 'trustedKeys' | 'resendBelow'>
  /** Resolves once the bucket has everything that was sent. */
  isWritten: () => Promise<void>
  /** The generation up to which the bucket once had everything. */
  cursor: number
  timing: Pick<Timing, 'elapsed'>
}

/** Placeholder account of node keys, and of records that a comparison found to be gone. */
export const noAccount: Uuid = firstUuidOf(0)

/** Limits harmless changes, because many small refusals add up to a large one. */
const [harmlessAtMost, harmlessWithinMs] = [20, 10 * 60_000]

/** Decides which changes of an account still count as harmless. */
function createHarmlessBudget(timing: Parts['timing']) {
  const spent = new Map<Uuid, number[]>()
  return {
    within({ changes, ...rest }: Unassigned): Unassigned {
      const since = timing.elapsed() - harmlessWithinMs
      for (const [account, times] of spent) {
        const recent = times.filter((at) => at > since)
        if (recent.length > 0) spent.set(account, recent)
        else spent.delete(account)
      }
      const left = new Map<Uuid, number>()
      return {
        ...rest,
        changes: changes.map((change) => {
          if (!change.isHarmless) return change
          const count = left.get(change.account_id) ?? harmlessAtMost - (spent.get(change.account_id)?.length ?? 0)
          left.set(change.account_id, count - 1)
          return count > 0 ? change : { ...change, isHarmless: false }
        }),
      }
    },
    spend({ changes }: Unassigned): void {
      for (const { account_id, isHarmless } of changes)
        if (isHarmless) spent.set(account_id, [...(spent.get(account_id) ?? []), timing.elapsed()])
    },
  }
}

/** State that only the first of several waves needs. */
export async function openFirstWave(parts: Parts) {
  const { natsSink, tables, cursor } = parts
  // A bucket below this is outdated, or belongs to a database from before a restore.
  const least = Math.max(cursor, await tables.resendBelow())
  const sent = await openSentGenerations(natsSink, await tables.trustedKeys(), least)
  return { sent, hold: createHolding(parts, sent) }
}

/**
 * Assigns changes to rollouts, together with the first wave's previous records, which come from its bucket. Stores them
 * before any node learns of the change, and only once: afterwards the bucket has the change.
 */
function createHolding({ locked, natsSink, tables, isWritten, timing }: Parts, sent: SentGenerations) {
  const harmless = createHarmlessBudget(timing)
  async function previousOf(keys: readonly RecordKey[]): Promise<Map<RecordKey, Previous>> {
    const found = new Map<RecordKey, Previous>()
    if (keys.length === 0) return found
    await isWritten()
    const trusted = await tables.trustedKeys()
    await inParallel(keys, 32, async (key) => {
      found.set(key, await contentsOf(await natsSink.stored(key), key, trusted))
    })
    // The records of a bucket that has lost writes must not be held.
    if (!(await natsSink.confirmIntact())) throw new Error('NATS has lost the contents of the buckets')
    return found
  }

  /**
   * Accepts only the version that was sent last: someone with write access to NATS may have put back an older one or
   * removed it.
   */
  async function contentsOf(text: string | undefined, key: RecordKey, trusted: TrustedKeys): Promise<Previous> {
    const generation = sent.of(key)
    if (generation === undefined) return 'unknown'
    if (generation === 'gone') return { value: null, blobs: [] }
    const record = text === undefined ? undefined : openRecord(text, trusted, key)
    if (!record || 'fault' in record || record.generation !== generation) return 'unknown'
    const { value, rules, expiring } = record
    const names = kindOf(key) === 'policy' ? piecesOf(value as PolicyRecord | null, rules, expiring) : []
    const blobs: Buffer[] = []
    for (const name of names) {
      const blob = await natsSink.storedBlob(name)
      if (!blob) return 'unknown'
      blobs.push(blob)
    }
    return { value, ...(rules && { rules }), ...(expiring && { expiring }), blobs } satisfies Contents
  }

  return async (
    { after, settled }: { after: number; settled: number },
    changed: readonly Changed[],
    elsewhere: ReadonlySet<RecordKey>,
  ): Promise<void> => {
    const here = changed.filter(({ key, accountId }) => !elsewhere.has(key) && accountId !== noAccount)
    const accounts = [...new Set(here.map(({ accountId }) => accountId))]
    for (;;) {
      const unassigned = harmless.within(await locked.unassigned(accounts))
      const joining = joinRollouts(after, unassigned)
      const previous = await previousOf(joining.flatMap(({ keys }) => keys))
      if (!(await locked.hold({ version: unassigned.version, settled, joining, previous }))) continue
      return harmless.spend(unassigned)
    }
  }
}

function piecesOf(
  value: PolicyRecord | null,
  rules: PolicyRecord | undefined,
  expiring: ExpiringRules | undefined,
): string[] {
  const files = [value, rules, expiring?.list]
  return [...new Set(files.flatMap((file) => file?.chunks ?? []))]
}
