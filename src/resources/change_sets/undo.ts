import type { TObject } from 'typebox'
import { splitReadOnly } from '../../http/read_only.ts'
import { canBePlanned, type Route } from '../../http/route.ts'

export type Routes = ReadonlyMap<string, Route>
type Json = Readonly<Record<string, unknown>>

/** How to undo an operation: the inverse operation, and the fields to compare. */
export type Undo = {
  /** Fields of the resource that requests can set. */
  readonly fields: readonly string[]
  readonly shape: TObject
} & (
  | { readonly kind: 'created'; readonly by: Route; readonly parts: readonly string[] }
  | { readonly kind: 'deleted'; readonly by: Route; readonly parts: readonly Part[] }
  | { readonly kind: 'updated'; readonly by: Route }
  | { readonly kind: 'module'; readonly name: string; readonly replace: Route; readonly remove: Route }
)
/** A child resource that is shown inside another, but created separately. */
export type Part = { readonly field: string; readonly undo: Extract<Undo, { kind: 'deleted' }> }

const lostToken = 'Its token or secret is kept nowhere and cannot be brought back. Create another one.'
const ownChange = 'Use POST /change_sets/{id}/revert with the change set that was applied.'
const ruleSet =
  'The audit has only the number of rules of a rule set. Send the rules that you want with PUT /ip_policies/{id}/rules.'
const noChange = 'It changed nothing that an operation could put back.'

/** Why an operation cannot be undone, and what to do instead. The inverse of all others follows from their names. */
export const irreversible: Readonly<Record<string, string>> = {
  'api_keys.rotate': 'The former token is kept nowhere. Rotate the key again to end the new one.',
  'api_keys.delete': lostToken,
  'users.create':
    'The user may have signed in, and linked identities, since. Delete the user with DELETE /users/{id}, or set active to false.',
  'users.delete': 'The keys, sessions and identities of the user are gone. Create the user again.',
  'users.invitation.create': 'Its link may be open already. Withdraw it with DELETE /users/{id}/invitation.',
  'users.invitation.delete': 'Its link is kept nowhere. Invite the user again.',
  'bot_users.delete': 'The keys of the bot are gone. Create the bot again, and keys for it.',
  'command_sign_in.answer': 'It made an API key. Delete that key.',
  'ip_policies.replace_rules': ruleSet,
  'ip_policies.remove_rules': ruleSet,
  'reserved_domains.delete': 'The domain has to be verified again. Reserve it again, and verify it.',
  'reserved_domains.verify': noChange,
  'tls_certificates.update': 'The former private key is kept nowhere. Upload the certificate that you want.',
  'tls_certificates.delete': 'The private key is kept nowhere. Upload the certificate again.',
  'dashboard_session.sign_in': noChange,
  'dashboard_session.sign_out': noChange,
  'change_sets.create': 'Delete the draft with DELETE /change_sets/{id}.',
  'change_sets.update': 'Send the former changes again with PATCH /change_sets/{id}.',
  'change_sets.delete': 'Create the draft again.',
  'change_sets.apply': ownChange,
  'change_sets.confirm': ownChange,
  'change_sets.approve': 'Withdraw the change set with POST /change_sets/{id}/withdraw.',
  'change_sets.withdraw': 'Create its changes again.',
  'approval_policy.replace': 'Send the former kinds again with PUT /approval_policy.',
  'change_sets.revert': 'Delete the draft with DELETE /change_sets/{id}.',
  'audit_events.revert': 'Delete the draft with DELETE /change_sets/{id}.',
  'rollouts.halt': 'Resume the rollout with POST /rollouts/{id}/resume.',
  'rollouts.resume':
    'Halt it again with POST /rollouts/{id}/halt, or undo its changes with POST /rollouts/{id}/revert.',
  'rollouts.release': 'Undo its changes with POST /rollouts/{id}/revert.',
  'rollouts.revert': 'Delete the draft with DELETE /change_sets/{id}.',
  'webhook_destinations.delete': lostToken,
  'webhook_destinations.rotate': 'The former secret is kept nowhere. Rotate it again to end the new one.',
  'webhook_destinations.test': noChange,
  'webhook_destinations.replay': noChange,
  'alert_rules.test': noChange,
}

/** Resources whose representation includes children with their own operations. */
const partsOf: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  https_edges: { routes: 'https_edge_routes' },
}

/**
 * Derives the inverse of every operation from the list of operations. A string explains why there is none, and what to
 * do.
 */
export function undoOf(routes: Routes, operation: string): Undo | string {
  if (!routes.has(operation))
    return `${operation} is not an operation of the API. Ask the operator of the installation to change it back.`
  const [, name = '', verb = ''] = /^(.+)\.([a-z_]+)$/.exec(operation) ?? []
  return irreversible[operation] ?? byName(routes, name, verb) ?? noChange
}

function byName(routes: Routes, name: string, verb: string): Undo | undefined {
  const planned = (each: string): Route | undefined => {
    const route = routes.get(each)
    return route && canBePlanned(route) ? route : undefined
  }
  const [create, update, remove] = ['create', 'update', 'delete'].map((each) => planned(`${name}.${each}`))
  const replace = planned(`${name}.replace`)
  const resource = comparedBy(routes, name)
  if (replace && remove && (verb === 'replace' || verb === 'delete'))
    return { kind: 'module', name: name.split('.').at(-1) ?? '', replace, remove, fields: [], shape: replace.response }
  if (!resource) {
    // A part that a PATCH of its resource can also set.
    const whole = name.split('.').slice(0, -1).join('.')
    return whole && verb === 'delete' ? byName(routes, whole, 'update') : undefined
  }
  const parts = Object.entries(partsOf[name] ?? {})
  if (verb === 'create' && remove)
    return { kind: 'created', by: remove, ...resource, parts: parts.map(([field]) => field) }
  if (verb === 'delete' && create)
    return {
      ...{ kind: 'deleted', by: create, ...resource },
      parts: parts.map(([field, part]) => ({ field, undo: byName(routes, part, 'delete') as Part['undo'] })),
    }
  return verb === 'update' && update ? { kind: 'updated', by: update, ...resource } : undefined
}

/** Undefined if the name is not a resource. */
function comparedBy(routes: Routes, name: string): { fields: string[]; shape: TObject } | undefined {
  const get = routes.get(`${name}.get`)
  const bodies = ['create', 'update'].flatMap((verb) => routes.get(`${name}.${verb}`)?.body ?? []) as TObject[]
  if (!get?.response || bodies.length === 0) return undefined
  const shape = get.response as TObject
  const shown = bodies.flatMap((body) => Object.keys(body.properties).flatMap((each) => shownAs(each, shape) ?? []))
  return { shape, fields: [...new Set(shown)].filter((each) => !(each in (get.params ?? {}))) }
}

/** Responses show `ip_policy_ids` as `ip_policies` if they contain only references. */
function shownAs(name: string, { properties }: TObject): string | undefined {
  const references = name
    .replace(/y_ids$/, 'ies')
    .replace(/_ids$/, 's')
    .replace(/_id$/, '')
  return [name, references].find((each) => Object.hasOwn(properties, each))
}

/** The body that restores these fields. Null clears a field that was unset. */
export function bodyFor(route: Route, { shape, fields }: Pick<Undo, 'shape' | 'fields'>, shown: Json): object {
  const body = route.body as TObject
  const sent = splitReadOnly(body, shape, shown).body as Json
  const clears = route.method === 'PATCH'
  return Object.fromEntries(
    Object.keys(body.properties).flatMap((name): [string, unknown][] => {
      const from = shownAs(name, shape)
      if (from === undefined || !fields.includes(from)) return []
      const value = from === name ? sent[name] : idsOf(shown[from])
      return value === undefined ? (clears ? [[name, null]] : []) : [[name, value]]
    }),
  )
}

function idsOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(idsOf)
  return typeof value === 'object' && value !== null ? Reflect.get(value, 'id') : value
}
