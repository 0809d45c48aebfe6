import { useQuery } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { isExpected } from '../../../../src/kernel/expected_states.ts'
import type { Shapes } from '../../api/client.ts'
import { useWaitingKeys } from '../../api/people.ts'
import { queries } from '../../api/queries.ts'
import { isFaulty, type Status, stateOf } from '../../ui/status.tsx'
import { type ApiKey, expiryOf } from '../keys/key.tsx'
import { useNames, withNames } from '../rollouts/words.tsx'
import { type Kind, type Thing, useKinds, withoutEffects } from './use_kinds.ts'

export type AttentionItem = {
  id: string
  tone: 'refused' | 'warned'
  title: ReactNode
  detail: string
  to: string
  action: string
}

/** Undefined until all reads have succeeded or failed. */
export function useAttention(isAdmin: boolean): AttentionItem[] | undefined {
  const kinds = useKinds(isAdmin)
  const refused = useQuery({ ...queries.newlyRefused(), enabled: isAdmin })
  const keys = useQuery(queries.keys())
  const waiting = useWaitingKeys()
  const halted = useQuery(queries.haltedRollouts())
  const rollouts = halted.data?.rollouts ?? []
  const nameOf = useNames()
  const others = [
    { many: 'rollouts', to: '/rollouts', isError: halted.isError, isPending: halted.isPending },
    { many: 'API keys', to: '/keys', isError: keys.isError, isPending: keys.isPending },
    { many: 'newly refused addresses', to: '/newly-refused', isError: refused.isError, isPending: false },
  ]
  if ([...others, ...kinds].some(({ isPending }) => isPending)) return undefined
  const found = withoutEffects(kinds).map(({ things, ...kind }) => ({
    ...kind,
    things: things.filter(({ status }) => !isAmong(rollouts, status)),
  }))
  const items = [
    ...aboutUnread([...kinds, ...others].filter(({ isError }) => isError)),
    ...rollouts.map((rollout) => aboutRollout(rollout, nameOf)),
    ...aboutRefused(refused.data?.newly_refused_addresses ?? []),
    ...found.flatMap(({ one, things }) => things.flatMap((thing) => itemFor(thing, one))),
    ...found.flatMap(aboutUnknown),
    // A key that no one has yet ends with its invitation, and no one would miss it.
    ...aboutKeys((keys.data ?? []).filter(({ id }) => !waiting.has(id))),
  ]
  return items.sort((a, b) => Number(a.tone === 'warned') - Number(b.tone === 'warned'))
}

/** Data may be outdated, so other problems may exist. */
function aboutUnread(reads: readonly { many: string; to: string }[]): AttentionItem[] {
  const [first] = reads
  if (!first) return []
  return [
    {
      id: 'unread',
      tone: 'warned',
      title: `${listed(reads.map(({ many }) => many))} could not be read`.replace(/^./, (letter) =>
        letter.toUpperCase(),
      ),
      detail: 'What needs attention there is not known.',
      to: first.to,
      action: `View ${first.many}`,
    },
  ]
}
const listed = (names: readonly string[]): string => new Intl.ListFormat('en').format(names)

/** The rollout has its own item, if it could be read. */
const isAmong = (rollouts: readonly Shapes['Rollout'][], status: Status | undefined): boolean =>
  status?.code === 'rollout_halted' && rollouts.some(({ id }) => id === status.rollout?.id)

const aboutRollout = ({ id, cell, reason }: Shapes['Rollout'], nameOf: ReturnType<typeof useNames>): AttentionItem => ({
  ...{
    id,
    tone: 'warned',
    title: `A change was halted in cell ${cell}`,
    to: `/rollouts/${id}`,
    action: 'View rollout',
  },
  detail: `${withNames(reason ?? 'No reason was given', nameOf)}. What this account changes there waits for a decision.`,
})

function itemFor({ id, name, status, to }: Thing, one: string): AttentionItem[] {
  if (!status || !isFaulty(status) || isExpected(status)) return []
  const tone = status.state === 'down' ? 'refused' : 'warned'
  return [{ id, tone, title: `${name} is ${status.state}`, detail: status.reason, to, action: `View ${one}` }]
}

/** One item per kind, because they usually share a cause. */
function aboutUnknown({ one, many, to, things }: Kind): AttentionItem[] {
  const unknown = things.filter(({ status }) => stateOf(status) === 'unknown' && !(status && isExpected(status)))
  const [first] = unknown
  if (!first) return []
  const isOne = unknown.length === 1
  return [
    {
      id: `unknown ${one}`,
      tone: 'warned',
      title: isOne ? `${first.name} is unknown` : `${unknown.length} ${many} are unknown`,
      detail: first.status?.reason ?? 'The control plane does not say how they are.',
      to: isOne ? first.to : to,
      action: `View ${isOne ? one : many}`,
    },
  ]
}

/** One item for all, because a change usually shuts out several addresses. */
function aboutRefused(refused: readonly Shapes['NewlyRefusedAddress'][]): AttentionItem[] {
  const [first] = refused
  if (!first) return []
  const isOne = refused.length === 1
  return [
    {
      id: 'newly refused',
      tone: 'refused',
      title: isOne ? (
        <>
          <span className="mono">{first.ip}</span> was let in before and is refused now
        </>
      ) : (
        `${refused.length} addresses were let in before and are refused now`
      ),
      detail: isOne
        ? 'A change or the expiry of a rule has shut it out.'
        : 'Changes or the expiry of rules have shut them out.',
      to: '/newly-refused',
      action: 'View addresses',
    },
  ]
}

function aboutKeys(keys: readonly ApiKey[]): AttentionItem[] {
  const expiring = keys.filter((key) => expiryOf(key) === 'soon')
  if (expiring.length === 0) return []
  return [
    {
      id: 'keys',
      tone: 'warned',
      title: expiring.length === 1 ? '1 API key expires this week' : `${expiring.length} API keys expire this week`,
      detail: expiring.map(({ description, id }) => description ?? id).join(', '),
      to: '/keys?show=expiring',
      action: 'View keys',
    },
  ]
}
