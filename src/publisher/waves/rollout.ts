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
  /** It goes to all waves without a watch. */
  readonly isUrgent?: boolean
}

export type UnassignedChange = Pick<OutboxRow, 'generation' | 'account_id' | 'key'> & {
  /** Why it is not to wait for a watch. */
  readonly urgent?: string | null
  /** It only refuses addresses, and hardly any that were let in lately. */
  readonly isHarmless?: boolean
}

/** Changes of an account that belong to no rollout yet. Some may not be settled: what was compiled may contain them. */
export type Unassigned = {
  /** Differs after each release and halt. */
  readonly version: number
  readonly changes: readonly UnassignedChange[]
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
  /** Why everything of the account that is on its way goes to all waves without a watch. */
  readonly urgent?: string | undefined
}

/** Reach all waves at once. A certificate that was held would stay encrypted to a key that a revoked node knows, and limits of the cell
 * would let too many through if some nodes did not know of a new one. */
export const kindsWithoutWaves: readonly string[] = ['certificate', 'recipient', 'challenge', 'placement', 'cell_nodes']
export const goesThroughWaves = (key: RecordKey): boolean => !kindsWithoutWaves.includes(kindOf(key))

/**
 * Which rollouts take in the changes that a batch may contain. A record may be sent with newer contents than its row of the
 * outbox says. So everything of the account that is committed when it is sent belongs to the same rollout: a later wave
 * would otherwise get the one without what it refers to. `after`: up to where the first wave has everything.
 *
 * A record that refers to nothing and only changed harmlessly since all waves have it belongs to none: all waves get it now.
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
      // What was halted would come along.
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
