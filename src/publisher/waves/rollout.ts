import { kindOf, type RecordKey } from '../../distribution/records.ts'
import type { Uuid } from '../../kernel/ids.ts'
import type { OutboxRow } from '../../operations/outbox.ts'
import type { Compiled } from '../records/compile.ts'

/** Everything of a record but its key and its generation. */
export type Contents = Omit<Compiled, 'key' | 'isElsewhere'>
/** A record as the first wave had it before a change. `unknown`: NATS had lost it, and nodes keep what they have. */
export type Previous = Contents | 'unknown'

/**
 * One account's changes on their way through the waves of a cell. An account has at most two: one that is watched, and one
 * with everything that came meanwhile; or one that was halted, and takes in what comes.
 */
export type OpenRollout = {
  readonly id: number
  readonly accountId: Uuid
  /** The last wave that has the changes. -1: none, because it was halted. */
  readonly reached: number
  /** The last generation that belongs to it, as far as is known. */
  readonly openUntil: number
  readonly keys: ReadonlySet<RecordKey>
}

/** Changes of an account that belong to no rollout yet. Some may not be settled: what was compiled may contain them. */
export type Unassigned = {
  /** Differs after each release and halt. */
  readonly version: number
  readonly changes: readonly Pick<OutboxRow, 'generation' | 'account_id' | 'key'>[]
  readonly open: readonly OpenRollout[]
}

/** What a rollout is about to take in. */
export type Joining = {
  /** Undefined: a new one. */
  readonly rollout: number | undefined
  readonly accountId: Uuid
  readonly since: number
  readonly openUntil: number
  /** Those that it does not have yet. */
  readonly keys: readonly RecordKey[]
}

/** Reach all waves at once. A certificate that was held would stay encrypted to a key that a revoked node knows. */
export const kindsWithoutWaves: readonly string[] = ['certificate', 'recipient', 'challenge', 'placement']
export const goesThroughWaves = (key: RecordKey): boolean => !kindsWithoutWaves.includes(kindOf(key))

/**
 * Which rollouts take in the changes that a batch may contain. A record may be sent with newer contents than its row of the
 * outbox says. So everything of the account that is committed when it is sent belongs to the same rollout: a later wave
 * would otherwise get the one without what it refers to. `after`: up to where the first wave has everything.
 */
export function joinRollouts(after: number, { changes, open }: Unassigned): Joining[] {
  const joining: Joining[] = []
  for (const [accountId, own] of Map.groupBy(changes, ({ account_id }) => account_id)) {
    const rollouts = open.filter((rollout) => rollout.accountId === accountId).sort((a, b) => a.id - b.id)
    const last = rollouts.at(-1)
    const isPartOfLast = last && (last.reached < 0 || rollouts.length > 1 || last.openUntil > after)
    const target = isPartOfLast ? last : undefined
    const generations = own.map(({ generation }) => generation)
    joining.push({
      rollout: target?.id,
      accountId,
      since: Math.min(...generations),
      openUntil: Math.max(...generations, target?.openUntil ?? 0),
      keys: [...new Set(own.map(({ key }) => key))].filter((key) => !target?.keys.has(key)),
    })
  }
  return joining
}

export type HeldKey = { readonly key: RecordKey; readonly accountId: Uuid; readonly isGone: boolean }
