import type { EdgeNode } from '../../kernel/edge/edge_nodes.ts'
import { toId } from '../../kernel/ids.ts'
import type { Evidence, StoredRollout } from '../../operations/rollouts.ts'
import type { AuditedEvent } from '../audit_events/store.ts'
import type { Rollout, RolloutDetails, RolloutEvidence, RolloutState } from './schema.ts'
import type { ChangeEvent, FoundRollout } from './store.ts'

const maxShown = 100

export function stateOf({ ended_at, reached, is_first, is_urgent }: StoredRollout): RolloutState {
  if (ended_at) return 'released'
  if (reached < 0) return 'halted'
  if (!is_first) return 'waiting'
  return is_urgent ? 'releasing' : 'watching'
}

const textOf = (...values: unknown[]): string | null => values.find((value) => typeof value === 'string') ?? null

/** A signal unknown to this version is shown with its text. */
const toEvidence = (found: Evidence, isAdmin: boolean): RolloutEvidence => ({
  signal: textOf(found.signal) ?? 'record',
  sentence: textOf(found.reason) ?? 'It is not said what was seen.',
  node: textOf(found.node),
  record: textOf(found.key),
  target: textOf(found.target),
  addresses: isAdmin && Array.isArray(found.addresses) ? found.addresses.slice(0, maxShown).map(String) : [],
})
const evidenceOf = ({ evidence }: StoredRollout, isAdmin: boolean): RolloutEvidence[] =>
  (evidence ?? []).slice(0, maxShown).map((found) => toEvidence(found, isAdmin))

const toChange = ({ id, created_at, operation, resource_id, owner_id }: ChangeEvent) => ({
  audit_event_id: toId('ev', id),
  ...{ created_at, operation, resource_id, owner_id },
})

export function toRollout(row: FoundRollout, uri: (path: string) => string): Rollout {
  const id = toId('ro', row.public_id)
  const state = stateOf(row)
  const isWatched = state === 'watching' && row.applied_at !== null
  return {
    id,
    uri: uri(`/rollouts/${id}`),
    created_at: row.created_at,
    cell: row.cell,
    state,
    wave: row.reached < 0 ? null : row.reached,
    waves: row.waves,
    generation: row.open_until,
    reason: row.reason,
    evidence: evidenceOf(row, false),
    applied_at: row.applied_at,
    watched_until: isWatched
      ? new Date(Date.parse(row.applied_at ?? '') + row.soak_seconds * 1_000).toISOString()
      : null,
    ended_at: row.ended_at,
    change_count: row.change_count,
    latest_change: row.latest_change && toChange(row.latest_change),
  }
}

/** Fields that a decision alters. */
export const stableRolloutFields = ({ id, cell, state, reason }: Rollout): object => ({ id, cell, state, reason })

type Around = {
  readonly nodes: readonly EdgeNode[]
  readonly waves: ReadonlyMap<string, number>
  readonly events: readonly AuditedEvent[]
  /** Only admins see client addresses. */
  readonly isAdmin: boolean
}

export function toDetails(
  row: FoundRollout,
  uri: (path: string) => string,
  { nodes, waves, events, isAdmin }: Around,
): RolloutDetails {
  const keys = new Set<string>(row.keys)
  const appliedAs = Math.max(row.open_until, row.released_as)
  const shown = nodes.map((node) => {
    const wave = waves.get(node.node) ?? 0
    const refusal = node.refusals.find(
      ({ key, generation }) => generation !== null && generation >= row.since && keys.has(key),
    )
    const isToHave = row.ended_at !== null || wave <= row.reached
    return {
      name: node.node,
      wave,
      live: node.live,
      has_changes: isToHave && refusal === undefined && node.applied >= appliedAs,
      has_previous: row.reached < 0 ? node.applied >= row.released_as : !isToHave,
      reason: refusal?.reason ?? null,
    }
  })
  return {
    ...toRollout(row, uri),
    evidence: evidenceOf(row, isAdmin),
    records: row.keys.slice(0, maxShown),
    nodes: shown.sort((a, b) => a.wave - b.wave || a.name.localeCompare(b.name)),
    changes: events.slice(0, maxShown).map(toChange),
  }
}
