export const states = ['up', 'degraded', 'down', 'unknown'] as const
export type State = (typeof states)[number]

/**
 * Status of a resource. Programs rely on the stable code; the reason is one sentence for people. The API, and through
 * it the dashboard and the command line, take every status from here.
 */
export type Status = {
  readonly state: State
  readonly code: Code
  readonly reason: string
  /** Null if unknown, or if the status has never changed. */
  readonly since: string | null
  /** The rollout that holds a change back from some or all nodes. */
  readonly rollout?: Rollout
}
export type Rollout = {
  readonly id: string
  readonly state: 'watching' | 'halted'
  readonly reason: string | null
}

/** All status codes. docs/explain/health.md describes them for users. */
export const codes = [
  'ok',
  'no_hostports',
  'hostports_refused',
  'no_routes',
  'no_backend',
  'backend_disabled',
  'backend_missing',
  'no_weight',
  'on_fallback',
  'servers_down',
  'servers_failing',
  'not_checked',
  'not_checked_yet',
  'not_used',
  'certificate_missing',
  'certificate_not_reported',
  'certificate_expired',
  'certificate_expiring',
  'certificate_not_valid_yet',
  'certificate_ordered',
  'certificate_order_failing',
  'domain_unverified',
  'domain_record_gone',
  'domain_lapsed',
  'control_plane_blind',
  'no_nodes',
  'no_live_node',
  'node_away',
  'node_behind',
  'node_key_waiting',
  'record_refused',
  'record_withheld',
  'rollout_halted',
  'proxy_differs',
  'emergency',
  'limits_shut',
  'storage_fault',
  'delivery_failing',
  'disabled',
  'disabled_after_failures',
  'receiver_gone',
  'nothing_sent_yet',
] as const
export type Code = (typeof codes)[number]

const status =
  (state: State) =>
  (code: Code, reason: string, since: string | null = null): Status => ({ state, code, reason, since })

export const up = (reason: string, since: string | null = null): Status => status('up')('ok', reason, since)
export const degraded = status('degraded')
export const down = status('down')
export const unknown = status('unknown')

/** A known fault ranks worse than an unknown state. */
const severity: Record<State, number> = { down: 3, degraded: 2, unknown: 1, up: 0 }
export const isWorse = (one: Status, other: Status): boolean => severity[one.state] > severity[other.state]

/** For parts that must all work. Returns the first of equally bad ones, with an open rollout of any part. */
export function worstOf(first: Status, ...others: readonly Status[]): Status {
  const worst = others.reduce((worst, each) => (isWorse(each, worst) ? each : worst), first)
  const rollouts = [worst, first, ...others].flatMap(({ rollout }) => rollout ?? [])
  const rollout = rollouts.find(({ state }) => state === 'halted') ?? rollouts[0]
  return rollout ? { ...worst, rollout } : worst
}

/** For parts that share the traffic: down only if all are down. */
export function together(first: Status, ...others: readonly Status[]): Status {
  const worst = worstOf(first, ...others)
  const isPartial = worst.state === 'down' && [first, ...others].some(({ state }) => state !== 'down')
  return isPartial ? { ...worst, state: 'degraded' } : worst
}

const maxNamed = 3

/** 'a, b, c and 4 more'. */
export function listed(names: readonly string[]): string {
  const shown = names.slice(0, maxNamed)
  const rest = names.length - shown.length
  if (rest > 0) return `${shown.join(', ')} and ${rest} more`
  const last = shown.at(-1) ?? ''
  return shown.length < 2 ? last : `${shown.slice(0, -1).join(', ')} and ${last}`
}

export const counted = (count: number, one: string, many = `${one}s`): string => `${count} ${count === 1 ? one : many}`

/** Prefixes the reason with the name of the part. */
export const within = (part: string, { reason, ...rest }: Status): Status => ({ ...rest, reason: `${part}: ${reason}` })

/** Ends a sentence with the reason of another part, which may already have a full stop. */
export const because = (reason: string | null | undefined): string =>
  reason ? `: ${reason.replace(/[.\s]+$/, '')}.` : '.'
