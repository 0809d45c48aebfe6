import type { Caller } from '../../identity/caller.ts'
import { forbidden, Refusal } from '../../kernel/errors.ts'
import type { Incoming } from '../handling.ts'
import { readReason } from './approval.ts'

/**
 * The reason for skipping the watch, and the other rollouts that the change releases; undefined if the request does not
 * skip it.
 */
export async function urgentOf(
  { service: { edges }, raw }: Pick<Incoming, 'service' | 'raw'>,
  { role, accountId }: Caller,
  query: Record<string, unknown>,
): Promise<{ reason: string; along: readonly string[] } | undefined> {
  if (query.rollout !== 'urgent') return undefined
  if (role !== 'admin')
    throw forbidden(
      'Only admins can make an urgent change. Repeat the request without rollout=urgent, or ask an admin.',
    )
  const reason = readReason(raw, 'rollout=urgent')
  const open = await edges.rolloutsOf(accountId)
  const halted = open.find(({ isHalted }) => isHalted)
  // Further changes of the account queue behind a halted rollout, because they may build on it.
  if (halted)
    throw new Refusal(
      'ERR_ROLLOUT_STATE',
      `The rollout ${halted.id} is halted, and an urgent change would take its changes along. Revert and resume it, or release it, or repeat the request without rollout=urgent.`,
    )
  return { reason, along: open.map(({ id }) => id) }
}
