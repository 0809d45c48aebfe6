import { type Connection, call } from '../call.ts'
import { operations } from '../operations.ts'
import { startProgress } from '../output/progress.ts'
import { allPages } from '../pages.ts'
import {
  createSchemas,
  type Json,
  type Kind,
  kindNames,
  kinds,
  normalize,
  type Rule,
  ruleSchema,
  type Thing,
} from './kinds.ts'

/** Everything in the account that a state file can contain, oldest first. */
export const readAccount = async (connection: Connection, wanted: readonly Kind[] = kindNames): Promise<Thing[]> =>
  withNames(await readThings(connection, wanted))

/** The same without names. */
export async function readThings(connection: Connection, wanted: readonly Kind[] = kindNames): Promise<Thing[]> {
  const things: Thing[] = []
  for (const kind of kindNames) {
    if (!wanted.includes(kind)) continue
    const { path } = kinds[kind]
    const list = operations.find((operation) => operation.path === path && operation.method === 'GET')
    const { text } = await allPages(connection, list?.listField ?? '', { method: 'GET', path })
    const rows = (JSON.parse(text) as Json)[list?.listField ?? ''] as Json[]
    things.push(...rows.reverse().map((row) => toThing(kind, row)))
  }
  const rules = await readRules(
    connection,
    things.filter(({ kind }) => kind === 'ip_policies'),
  )
  return things.map((thing) =>
    thing.kind === 'ip_policies' ? { ...thing, rules: rules.get(thing.id ?? '') ?? [] } : thing,
  )
}

export function toThing(kind: Thing['kind'], row: Json): Thing {
  return {
    kind,
    name: '',
    id: String(row.id),
    fields: normalize(createSchemas[kind], withoutOrdered(row)),
    ...(kind === 'https_edges' && {
      routes: (row.routes as Json[]).toReversed().map((route) => toThing('routes', route)),
    }),
  }
}

/** The policy of a domain determines its ordered certificate, which therefore cannot be chosen. */
const withoutOrdered = (row: Json): Json =>
  row.certificate_management_policy ? { ...row, certificate: undefined } : row

export async function readRulesAt(connection: Connection, path: string): Promise<Rule[]> {
  const { text } = await call(connection, { method: 'GET', path, accept: 'application/json' })
  return (JSON.parse(text) as { rules: Json[] }).rules.map((rule) => normalize(ruleSchema, rule) as Rule)
}

/** Concurrent, because sequential requests would add up the network's latency. */
async function readRules(connection: Connection, policies: readonly Thing[]): Promise<Map<string, Rule[]>> {
  const found = new Map<string, Rule[]>()
  const progress = startProgress('rules', policies.length)
  const waiting = policies.values()
  const work = async () => {
    for (const { id = '' } of waiting) {
      found.set(id, await readRulesAt(connection, `/ip_policies/${id}/rules`))
      progress.step(id)
    }
  }
  await Promise.all(Array.from({ length: 4 }, work))
  progress.end()
  return found
}

/** A recognizable name: the description, or another distinctive field. */
function ownName({ kind, fields }: Thing): string {
  const [hostport] = (fields.hostports ?? []) as string[]
  const byKind: Record<Thing['kind'], unknown> = {
    ip_policies: 'policy',
    backends: fields.address,
    http_response_backends: `response-${fields.status_code ?? 200}`,
    weighted_backends: 'weighted',
    failover_backends: 'failover',
    reserved_domains: fields.domain,
    ip_restrictions: fields.type,
    tcp_edges: hostport ?? 'edge',
    https_edges: hostport ?? 'edge',
    routes: `${fields.match_type} ${fields.match}`,
  }
  const isEdge = kind === 'tcp_edges' || kind === 'https_edges'
  const text = String((isEdge && hostport) || fields.description || byKind[kind])
  const slug = text
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}.:_*]+/gu, '-')
    // In a hostport, a colon precedes the port; elsewhere it only ends a word.
    .replaceAll(/:(?!\d)/g, '')
    .replaceAll(/^-+|-+$/g, '')
    .slice(0, 60)
  // What looks like an id would be taken for one, and JavaScript puts keys that are numbers before all others.
  return /^([a-z]+_[0-9a-z]{26}|\d+)$/.test(slug) ? `x-${slug}` : slug || String(byKind[kind])
}

/** Backend names are unique across kinds, because references use only the name. */
const namespaceOf = ({ kind }: Thing): string => (kind.endsWith('backends') ? 'backends' : kind)

/** Makes names unique: the second 'office' is office-2. */
export function withNames(things: readonly Thing[]): Thing[] {
  const taken = new Set<string>()
  return things.map((thing) => {
    const own = ownName(thing)
    let name = own
    for (let count = 2; taken.has(`${namespaceOf(thing)} ${name}`); count++) name = `${own}-${count}`
    taken.add(`${namespaceOf(thing)} ${name}`)
    const routes = thing.routes?.map((route) => ({
      ...route,
      name: `${name} ${route.fields.match_type} ${route.fields.match}`,
    }))
    return { ...thing, name, ...(routes && { routes }) }
  })
}
