import type { ReactNode } from 'react'
import { Link } from 'react-router'
import type { Shapes } from '../api/client.ts'
import { Badge, type Tone } from './badge.tsx'
import { type Health, State } from './state.tsx'
import { useCurrent } from './unread.ts'

export type Status = Shapes['Status']
type Name = Status['state']

const marks: Record<Name, Health> = { up: 'up', degraded: 'partial', down: 'down', unknown: 'unknown' }
const words: Record<Name, string> = { up: 'Up', degraded: 'Degraded', down: 'Down', unknown: 'Unknown' }
const tones: Record<Name, Tone> = { up: 'allowed', degraded: 'warned', down: 'refused', unknown: 'neutral' }
/** Worst first. */
const order: readonly Name[] = ['down', 'degraded', 'unknown', 'up']

/** The control plane says how things are; what it did not say is unknown. */
export const stateOf = (status: Status | undefined): Name => status?.state ?? 'unknown'
export const markOf = (status: Status | undefined): Health => marks[stateOf(status)]
export const wordOf = (status: Status | undefined): string => words[stateOf(status)]
/** For sorting: the worst first. */
export const rankOf = (status: Status | undefined): number => order.indexOf(stateOf(status))
export const isFaulty = (status: Status | undefined): boolean => ['down', 'degraded'].includes(stateOf(status))

type Props = { status: Status | undefined; children?: ReactNode }

/** The state, in a word unless another says more. */
export function StatusState({ status, children = wordOf(status) }: Props) {
  const current = useCurrent(status)
  return <State health={markOf(current)}>{current === status ? children : wordOf(current)}</State>
}

/** For a list: the state, and why it is not up. */
export function StatusCell({ status, children }: Props) {
  const current = useCurrent(status)
  return (
    <span className="two">
      <StatusState status={status}>{children}</StatusState>
      {current && current.state !== 'up' && <small className="status-reason">{current.reason}</small>}
      <RolloutLink status={current} />
    </span>
  )
}

/** To the rollout with a change of it that is not on every node. Up is then how it is with and without the change. */
export const RolloutLink = ({ status }: { status: Status | undefined }) =>
  status?.rollout ? (
    <small>
      <Link to={`/rollouts/${status.rollout.id}`}>
        {status.rollout.state === 'halted' ? 'A change was halted' : 'A change is rolling out'}
      </Link>
    </small>
  ) : null

/** Beside the title of a page. */
export function StatusBadge({ status }: { status: Status | undefined }) {
  const current = useCurrent(status)
  return <Badge tone={tones[stateOf(current)]}>{wordOf(current)}</Badge>
}

/** '1 is down, 2 are degraded'. Empty when all are up. */
export function faultsIn(statuses: readonly (Status | undefined)[]): string {
  return (['down', 'degraded', 'unknown'] as const)
    .map((state) => ({ state, count: statuses.filter((each) => stateOf(each) === state).length }))
    .filter(({ count }) => count > 0)
    .map(({ state, count }) => `${count} ${count === 1 ? 'is' : 'are'} ${state}`)
    .join(', ')
}
