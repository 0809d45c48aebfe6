import { kindOf, type RecordKey } from '../../distribution/records.ts'
import type { Uuid } from '../../kernel/ids.ts'
import type { OutboxRow } from '../../operations/outbox.ts'
import type { Compiled } from '../records/compile.ts'

export type Contents = Omit<Compiled, 'key' | 'isElsewhere'>
/** A record that the first wave had before a change. `unknown`: NATS had lost it, and nodes keep what they have. */
export type Previous = Contents | 'unknown'

/**
 * One account's changes on their way through the waves of a cell. An account has at most two rollouts: one that is
 * watched, and one with everything since. Or it has one that was halted, which takes in all further changes.
 */
export type OpenRollout = {
  readonly id: number
  readonly accountId: Uuid
  /** The last wave that has the changes; -1 for none, because it was halted. */
  readonly reached: number
  /** The last generation of the rollout, as far as known. */
  readonly openUntil: number
  readonly keys: ReadonlySet<RecordKey>
  /** Goes to all waves without a watch. */
  readonly isUrgent?: boolean
}

export type UnassignedChange = Pick<OutboxRow, 'generation' | 'account_id' | 'key'> & {
  /** Why the change must not wait for a watch. */
  readonly urgent?: string | null
  /** The change only refuses addresses, few or none of which were allowed recently. */
  readonly isHarmless?: boolean
}

/** An account's changes that belong to no rollout yet. Some may be unsettled: what was compiled may contain them. */
export type Unassigned = {
  /** Changes with each release and halt. */
  readonly version: number
  readonly changes: readonly UnassignedChange[]
  readonly open: readonly OpenRollout[]
}

export type Joining = {
  /** Undefined for a new rollout. */
  readonly rollout: number | undefined
  readonly accountId: Uuid
  readonly since: number
  readonly openUntil: number
  /** Keys that the rollout lacks. */
  readonly keys: readonly RecordKey[]
  /** Why all pending changes of the account go to all waves without a watch. */
  readonly urgent?: string | undefined
}

/**
 * These reach all waves at once. A held certificate would stay encrypted to a key that a revoked node knows, and a
 * cell's limits would let too much through if some nodes did not know of a new one.
 */
export const kindsWithoutWaves: readonly string[] = ['certificate', 'recipient', 'challenge', 'placement', 'cell_nodes']
export const goesThroughWaves = (key: RecordKey): boolean => !kindsWithoutWaves.includes(kindOf(key))

/**
 * Decides which rollouts take in the changes of a batch. A record may be sent with newer contents than its outbox row
 * had. All committed changes of the account therefore belong to the same rollout at the time of sending: a later wave
 * would otherwise get a record without what it refers to. `after`: the generation up to which the first wave has
 * everything.
 *
 * A record that refers to nothing and changed only harmlessly since all waves have it belongs to no rollout: all waves
 * get it now.
 */
export function joinRollouts(after: number, { changes, open }: Unassigned): Joining[] {
  const joining: Joining[] = []
  for (const [accountId, all] of Map.groupBy(changes, ({ account_id }) => account_id)) {
    const rollouts = open.filter((rollout) => rollout.accountId === accountId).sort((a, b) => a.id - b.id)
    const last = rollouts.at(-1)
    const urgent = all.find((change) => typeof change.urgent === 'string')?.urgent ?? undefined
    const own = urgent === undefined ? watchedOnes(all, rollouts) : all
    if (own.length === 0) continue
    const isWaiting = rollouts.length > 1 && !last?.isUrgent
    const isPartOfLast = last && (last.reached < 0 || isWaiting || last.openUntil > after)
    const target = isPartOfLast ? last : undefined
    const generations = own.map(({ generation }) => generation)
    joining.push({
      rollout: target?.id,
      accountId,
      since: Math.min(...generations),
      openUntil: Math.max(...generations, target?.openUntil ?? 0),
      keys: [...new Set(own.map(({ key }) => key))].filter((key) => !target?.keys.has(key)),
      // Releasing the urgent change would release the halted ones with it.
      ...(urgent !== undefined && !rollouts.some(({ reached }) => reached < 0) && { urgent }),
    })
  }
  return joining
}

function watchedOnes(changes: readonly UnassignedChange[], open: readonly OpenRollout[]): UnassignedChange[] {
  const watched = new Set(changes.filter(({ isHarmless }) => !isHarmless).map(({ key }) => key))
  return changes.filter(({ key }) => watched.has(key) || open.some(({ keys }) => keys.has(key)))
}

export type HeldKey = { readonly key: RecordKey; readonly accountId: Uuid; readonly isGone: boolean }
