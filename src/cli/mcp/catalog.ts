// The operations that tools may call, from openapi.json. Nothing else in this folder sends a request.
import { type DocumentOperation, deref, type Parameter, paths, type Schema } from '../document.ts'

export type Entry = {
  readonly id: string
  readonly method: string
  readonly path: string
  readonly summary: string
  readonly description: string
  readonly parameters: readonly Parameter[]
  readonly body: Schema | undefined
}

/** Read-only evaluations of an address, rules or a draft. */
export const asks = ['ip_checks.create', 'ip_policies.impact', 'change_sets.preview'] as const
/** Operations on drafts, which have no effect until a person applies them. */
export const drafts = ['change_sets.create', 'change_sets.update', 'change_sets.delete'] as const
/** Parameters about how a request is made, not what it changes. The person who applies the draft decides on the last one. */
const notGiven = ['dry_run', 'wait', 'confirm', 'allow_self_lockout', 'ignore_access_tests', 'break_glass', 'rollout']
/** Operations that only make sense in a browser. */
const sessions = ['dashboard_session', 'command_sign_in']
/** The service refuses these in a change set: they carry secrets, contact other machines, or take effect immediately. */
const notPlanned = [
  ...['api_keys.create', 'api_keys.rotate', 'tls_certificates.create', 'tls_certificates.update'],
  ...['webhook_destinations.create', 'webhook_destinations.rotate', 'webhook_destinations.test'],
  ...[
    'users.invitation.create',
    'users.invitation.delete',
    'rollouts.halt',
    'rollouts.resume',
    'rollouts.release',
    'rollouts.revert',
  ],
  ...['reserved_domains.verify', 'audit_events.revert', ...asks],
]

const groupOf = ({ id }: Entry): string => id.split('.')[0] ?? ''
const isAmong = (ids: readonly string[], { id }: Entry): boolean => ids.includes(id)

const documented = Object.entries(paths()).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ entry: toEntry(method, path, operation), operation })),
)

function toEntry(method: string, path: string, operation: DocumentOperation): Entry {
  const body = operation.requestBody?.content['application/json']?.schema
  const parameters = operation.parameters.map((parameter) => deref<Parameter>(parameter))
  return {
    id: operation.operationId,
    method: method.toUpperCase(),
    path,
    summary: operation.summary,
    description: operation.description ?? '',
    parameters: parameters.filter(({ in: place, name }) => place !== 'header' && !notGiven.includes(name)),
    body: body && deref<Schema>(body),
  }
}

const answersJson = ({ responses }: DocumentOperation): boolean =>
  responses['200']?.content?.['application/json'] !== undefined

const byId = (entries: readonly Entry[]): ReadonlyMap<string, Entry> =>
  new Map(entries.map((entry) => [entry.id, entry]))

export const readable = byId(
  documented
    .filter(({ entry, operation }) => entry.method === 'GET' && answersJson(operation))
    .map(({ entry }) => entry)
    .filter((entry) => !sessions.includes(groupOf(entry))),
)

export const inChangeSets = byId(
  documented
    .map(({ entry }) => entry)
    .filter(
      (entry) =>
        entry.method !== 'GET' && ![...sessions, 'change_sets'].includes(groupOf(entry)) && !isAmong(notPlanned, entry),
    ),
)

export const callable = byId([
  ...readable.values(),
  ...documented.map(({ entry }) => entry).filter((entry) => isAmong([...asks, ...drafts], entry)),
])
