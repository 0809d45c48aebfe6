import { isDeepStrictEqual } from 'node:util'
import { type Id, idPrefixes, momentOfUuid, toUuid } from '../../kernel/ids.ts'
import { parseRfc3339 } from '../../kernel/time.ts'
import { type Connection, call } from '../call.ts'
import { toMoment } from '../commands/audit_export.ts'
import { deref, type Schema } from '../document.ts'
import { Failure, usageFailure } from '../exits.ts'
import { readThings, toThing, withNames } from './account.ts'
import {
  createSchemas,
  type Json,
  kindNames,
  normalize,
  type Rule,
  referenceOf,
  ruleSchema,
  type Thing,
} from './kinds.ts'

type Event = {
  id: string
  created_at: string
  operation: string
  resource_id: string
  before: Json | null
  after: Json | null
}

/** The state before this event is unknown. */
class NotRecorded extends Error {
  readonly event: Pick<Event, 'operation' | 'resource_id' | 'created_at'>
  constructor(event: NotRecorded['event']) {
    super(event.operation)
    this.event = event
  }
}

/** The current state in the API's form, reverted event by event. Keyed by id; routes by their own. */
type Past = {
  readonly kind: Thing['kind']
  readonly id: string
  fields: Json
  readonly rules: Map<string, Rule>
  readonly edge: string | undefined
  /** A part that existed before this event, which did not record it. */
  lost?: Event
}
type World = Map<string, Past>

const kindOf: Readonly<Record<string, Thing['kind']>> = {
  ...{ ipp: 'ip_policies', ipx: 'ip_restrictions', rd: 'reserved_domains' },
  ...{ bkdst: 'backends', bkdhr: 'http_response_backends', bkdwd: 'weighted_backends', bkdfo: 'failover_backends' },
  ...{ edgtcp: 'tcp_edges', edghts: 'https_edges', edghtsrt: 'routes' },
}

/** Maximum offset between ids and times, as in src/access/past/changes_since.ts. */
const slackMs = 15 * 60_000

/** The account at that time. If an event's result differs from the present state, the state before it is unknown. */
export async function readPast(connection: Connection, given: string): Promise<Thing[]> {
  const at = parseRfc3339(String(toMoment(given)))
  if (at === undefined) throw usageFailure('--at must be a time in RFC 3339, or a date')
  if (at > Date.now()) throw usageFailure('--at must not be in the future')
  await refuseForgotten(connection, at)
  for (let attempt = 1; ; attempt++)
    try {
      const world = worldOf(await readThings(connection))
      for (const event of await eventsSince(connection, at)) undo(world, event)
      for (const { lost } of world.values()) if (lost) throw new NotRecorded(lost)
      return thingsOf(world)
    } catch (error) {
      if (!(error instanceof NotRecorded)) throw error
      // Something may have changed between the calls.
      if (attempt === 2) throw notRecorded(error)
    }
}

const notRecorded = ({ event: { operation, resource_id, created_at } }: NotRecorded): Failure =>
  new Failure(
    'refused',
    `the audit log does not have what the account was at that time${operation && `: what was there before ${operation} of ${resource_id} is not recorded`}`,
    [`The earliest time is ${created_at}.`],
  )

async function events(connection: Connection, query: Record<string, string>): Promise<Event[]> {
  const found: Event[] = []
  for (let next: string | undefined; ; ) {
    const { text } = await call(connection, {
      method: 'GET',
      path: '/audit_events',
      query: { ...query, ...(next && { after_id: next }) },
    })
    const page = JSON.parse(text) as { audit_events: Event[]; next_page_uri: string | null }
    found.push(...page.audit_events)
    next = page.audit_events.at(-1)?.id
    if (page.next_page_uri === null || next === undefined || query.limit) return found
  }
}

/**
 * Latest first, in the order in which they were written, from the first one that began later. The newest are listed at the end to see
 * that none is missing: the order is known only up to the first change that is under way.
 */
async function eventsSince(connection: Connection, at: number): Promise<Event[]> {
  const since = new Date(at - slackMs).toISOString()
  for (const deadline = Date.now() + 30_000; ; ) {
    const newest = await events(connection, { since, limit: '100' })
    const written = await events(connection, { since, order: 'committed' })
    const known = new Set(written.map(({ id }) => id))
    if (newest.every(({ id }) => known.has(id))) {
      const first = written.findIndex(({ created_at }) => Date.parse(created_at) > at)
      return first < 0 ? [] : written.slice(first).reverse()
    }
    if (Date.now() > deadline)
      throw new Failure('unreachable', 'changes have been under way for half a minute; try again')
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
}

/** The audit drops whole months of ids, oldest first. */
async function refuseForgotten(connection: Connection, at: number): Promise<void> {
  const [oldest] = await events(connection, { order: 'committed', limit: '1' })
  const month = new Date(oldest ? momentOfUuid(toUuid(oldest.id as Id<'ev'>)) : Date.now())
  const earliest =
    oldest?.operation === 'server.bootstrap'
      ? Date.parse(oldest.created_at)
      : Date.UTC(month.getUTCFullYear(), month.getUTCMonth()) + slackMs
  if (at < earliest)
    throw notRecorded(new NotRecorded({ operation: '', resource_id: '', created_at: new Date(earliest).toISOString() }))
}

const pastOf = ({ kind, id = '', fields, rules = [] }: Thing, edge?: string): Past => ({
  ...{ kind, id, fields, edge },
  rules: new Map(rules.map((rule) => [rule.cidr, rule])),
})

const worldOf = (things: readonly Thing[]): World =>
  new Map(
    things.flatMap((thing) =>
      [pastOf(thing), ...(thing.routes ?? []).map((route) => pastOf(route, thing.id))].map((past) => [past.id, past]),
    ),
  )

/** In the order of their ids, like lists. */
function thingsOf(world: World): Thing[] {
  const all = [...world.values()].sort((one, other) => (one.id < other.id ? -1 : 1))
  const toOne = ({ kind, id, fields, rules }: Past): Thing => ({
    ...{ kind, id, fields: inOrder(kind, fields), name: '' },
    ...(kind === 'ip_policies' && { rules: [...rules.values()] }),
    ...(kind === 'https_edges' && { routes: all.filter(({ edge }) => edge === id).map(toOne) }),
  })
  const order = new Map<string, number>(kindNames.map((kind, index) => [kind, index]))
  const whole = all.filter(({ kind }) => kind !== 'routes')
  return withNames(whole.sort((one, other) => (order.get(one.kind) ?? 0) - (order.get(other.kind) ?? 0)).map(toOne))
}

/** As in a dump. */
function inOrder(kind: Thing['kind'], fields: Json): Json {
  const names = Object.entries(createSchemas[kind].properties ?? {}).map(
    ([name, schema]) => referenceOf(name, deref<Schema>(schema))?.shown ?? name,
  )
  return Object.fromEntries(names.flatMap((name) => (name in fields ? [[name, fields[name]]] : [])))
}

const ruleSets = ['ip_policies.replace_rules', 'ip_policies.remove_rules']

function undo(world: World, event: Event): void {
  const { operation, resource_id: id, before, after } = event
  const prefix = id.slice(0, id.lastIndexOf('_'))
  if (prefix === 'ipr') undoRule(world, event)
  const kind = kindOf[prefix]
  if (!kind || !(prefix in idPrefixes)) return
  const found = world.get(id)
  if (ruleSets.includes(operation)) {
    must(found !== undefined, event)
    found.lost ??= event
  } else if (!before && after?.id === id) {
    must(found !== undefined && isSame(found, kind, after), event)
    must(
      [...world.values()].every(({ edge }) => edge !== id),
      event,
    )
    world.delete(id)
  } else if (!after && before?.id === id) {
    must(found === undefined, event)
    for (const past of worldOf([toThing(kind, before)]).values()) world.set(past.id, withEdge(past, before))
    const restored = world.get(id)
    // The event lacks the rules.
    if (kind === 'ip_policies' && restored) restored.lost = event
  } else if (found) undoFields(found, event)
  else must(fieldsIn(kind, { ...before, ...after }).length === 0, event)
}

function must(isSo: boolean, event: Event): asserts isSo {
  if (!isSo) throw new NotRecorded(event)
}

const withEdge = (past: Past, { edge_id }: Json): Past =>
  past.kind === 'routes' && !past.edge ? { ...past, edge: String(edge_id) } : past

/** The fields that a file could contain, by their normal names. */
const fieldsIn = (kind: Thing['kind'], shown: Json): string[] => Object.keys(normalize(createSchemas[kind], shown))

const normalOf = (kind: Thing['kind'], shown: Json): Json =>
  normalize(createSchemas[kind], shown.certificate_management_policy ? { ...shown, certificate: undefined } : shown)

function isSame({ fields, rules, lost }: Past, kind: Thing['kind'], after: Json): boolean {
  return isDeepStrictEqual(sorted(fields), sorted(normalOf(kind, after))) && (lost !== undefined || rules.size === 0)
}

const sorted = (fields: Json): Json => Object.fromEntries(Object.entries(fields).sort(([a], [b]) => (a < b ? -1 : 1)))

/** Only the event's changes, which may concern a part such as a module. */
function undoFields(found: Past, event: Event): void {
  const { kind } = found
  const [before, after] = [normalOf(kind, event.before ?? {}), normalOf(kind, event.after ?? {})]
  const changed = [...new Set([...Object.keys(before), ...Object.keys(after)])].filter(
    (name) => !isDeepStrictEqual(before[name], after[name]),
  )
  for (const name of changed) {
    must(isDeepStrictEqual(found.fields[name], after[name]), event)
    const { [name]: _, ...others } = found.fields
    found.fields = before[name] === undefined ? others : { ...others, [name]: before[name] }
  }
  if (kind !== 'reserved_domains' || !changed.includes('certificate_management_policy')) return
  // During an order, neither the certificate in use nor the previously chosen one is shown.
  if (found.fields.certificate_management_policy) {
    const { certificate: _, ...others } = found.fields
    found.fields = others
  } else found.lost ??= event
}

function undoRule(world: World, event: Event): void {
  const { before, after } = event
  const policy = world.get(String(((before ?? after)?.ip_policy as Json | undefined)?.id))
  must(policy !== undefined, event)
  if (policy.lost) return
  if (after) {
    const rule = normalize(ruleSchema, after) as Rule
    must(isDeepStrictEqual(sorted(policy.rules.get(rule.cidr) ?? {}), sorted(rule)), event)
    policy.rules.delete(rule.cidr)
  }
  if (before) {
    const rule = normalize(ruleSchema, before) as Rule
    must(!policy.rules.has(rule.cidr), event)
    policy.rules.set(rule.cidr, rule)
  }
}
