// An account in which nearly everything is broken in some way, one thing at a time: health_states.test.ts compares what the API
// and the command line say about it, truth.test.ts what people see.
import { type DbPool, run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import type { UpstreamHealth } from '../../src/distribution/channels.ts'
import { type Id, toUuid } from '../../src/kernel/ids.ts'
import type { Account } from '../harness/control_plane.ts'
import { make } from '../harness/fixtures.ts'
import { quickCertificate } from '../harness/quick_certificates.ts'
import type { HealthInstallation } from '../harness/reporting_nodes.ts'

const check = { health_check: { type: 'tcp' } }
const backend = (admin: Account, name: string, fields: object = check) =>
  make(admin, '/backends/static', { description: name, address: 'app.internal:80', ...fields })

/** An HTTPS edge with one route to this backend. */
async function edgeTo(admin: Account, name: string, module: object | null | undefined) {
  const edge = await make(admin, '/edges/https', { description: name, hostports: [`${name}.example:443`] })
  if (module !== undefined)
    await make(admin, `/edges/https/${edge.id}/routes`, {
      match_type: 'path_prefix',
      match: '/',
      ...(module && { backend: module }),
    })
  return edge
}

const seen = (id: string, address: string, status: 'up' | 'down' | 'failing'): UpstreamHealth => ({
  ...{ backend: id, address, port: 80, status, since: '2026-01-15T12:00:00.000Z' },
  reason: status === 'up' ? null : 'connection refused',
})

const refusal = (key: string, reason: string) => ({ key, generation: 1, reason, at: new Date().toISOString() })

export type Kind = { path: string; list: string; field: string; page: string; part: string }
const https: Kind = { path: '/edges/https', list: 'https_edges', field: 'edges https', page: '/edges', part: 'edges' }
export const kinds = {
  https,
  tcp: { ...https, path: '/edges/tcp', list: 'tcp_edges', field: 'edges tcp' },
  backend: {
    path: '/backends/static',
    list: 'backends',
    field: 'backends static',
    page: '/backends',
    part: 'backends',
  },
  weighted: {
    path: '/backends/weighted',
    list: 'backends',
    field: 'backends weighted',
    page: '/backends',
    part: 'backends',
  },
  group: {
    path: '/backends/failover',
    list: 'backends',
    field: 'backends failover',
    page: '/backends',
    part: 'backends',
  },
  domain: {
    path: '/reserved_domains',
    list: 'reserved_domains',
    field: 'reserved-domains',
    page: '/domains',
    part: 'domains',
  },
  certificate: {
    path: '/tls_certificates',
    list: 'tls_certificates',
    field: 'tls-certificates',
    page: '/certificates',
    part: 'TLS certificates',
  },
  webhook: {
    path: '/webhook_destinations',
    list: 'webhook_destinations',
    field: 'webhook-destinations',
    page: '/webhooks',
    part: 'webhooks',
  },
} satisfies Record<string, Kind>

/** What everything in the account is, and why. Everything that is not in here is up. */
export const table: readonly [kind: keyof typeof kinds, name: string, state: string, code: string][] = [
  ['https', 'e-half', 'degraded', 'servers_down'],
  ['https', 'e-gone', 'down', 'servers_down'],
  ['https', 'e-failing', 'degraded', 'servers_failing'],
  ['https', 'e-unchecked', 'unknown', 'not_checked'],
  ['https', 'e-unheard', 'unknown', 'not_checked_yet'],
  ['https', 'e-fallback', 'degraded', 'on_fallback'],
  ['https', 'e-no-route', 'down', 'no_routes'],
  ['https', 'e-no-module', 'down', 'no_backend'],
  ['https', 'e-disabled', 'down', 'backend_disabled'],
  ['https', 'e-no-tls-all', 'down', 'certificate_missing'],
  ['https', 'e-no-tls-one', 'degraded', 'certificate_missing'],
  ['https', 'e-rejected', 'degraded', 'record_refused'],
  ['https', 'e-no-names', 'down', 'no_hostports'],
  ['tcp', 't-port', 'down', 'record_refused'],
  ['backend', 'b-half', 'degraded', 'servers_down'],
  ['backend', 'b-gone', 'down', 'servers_down'],
  ['backend', 'b-failing', 'degraded', 'servers_failing'],
  ['backend', 'b-unchecked', 'unknown', 'not_checked'],
  ['backend', 'b-unheard', 'unknown', 'not_checked_yet'],
  ['group', 'g-fallback', 'degraded', 'on_fallback'],
  ['weighted', 'g-no-weight', 'down', 'no_weight'],
  ['domain', 'd-pending.example', 'down', 'domain_unverified'],
  ['domain', 'd-gone.example', 'degraded', 'domain_record_gone'],
  ['domain', 'd-lapsed.example', 'down', 'domain_lapsed'],
  ['domain', 'd-expired.example', 'down', 'certificate_expired'],
  ['certificate', 'c-old', 'down', 'certificate_expired'],
  ['certificate', 'c-soon', 'degraded', 'certificate_expiring'],
  ['certificate', 'c-early', 'down', 'certificate_not_valid_yet'],
  ['webhook', 'w-failing', 'down', 'delivery_failing'],
  ['webhook', 'w-disabled', 'down', 'disabled'],
  ['webhook', 'w-unused', 'unknown', 'nothing_sent_yet'],
]

export const nameOf = ({ description, domain: name }: Record<string, string>) => description ?? name ?? ''

/** What two nodes report of it is in `usual`. */
export async function furnishBrokenStates({ db, report }: HealthInstallation, admin: Account) {
  const [fine, half, gone, failing, unchecked, unheard] = await Promise.all([
    backend(admin, 'b-fine'),
    backend(admin, 'b-half'),
    backend(admin, 'b-gone'),
    backend(admin, 'b-failing', {}),
    backend(admin, 'b-unchecked', {}),
    backend(admin, 'b-unheard'),
  ])
  const group = await make(admin, '/backends/failover', { description: 'g-fallback', backends: [gone.id, fine.id] })
  const to = ({ id }: { id: string }, enabled = true) => ({ backend_id: id, enabled })
  const edges = {
    'e-fine': await edgeTo(admin, 'e-fine', to(fine)),
    'e-half': await edgeTo(admin, 'e-half', to(half)),
    'e-gone': await edgeTo(admin, 'e-gone', to(gone)),
    'e-failing': await edgeTo(admin, 'e-failing', to(failing)),
    'e-unchecked': await edgeTo(admin, 'e-unchecked', to(unchecked)),
    'e-unheard': await edgeTo(admin, 'e-unheard', to(unheard)),
    'e-fallback': await edgeTo(admin, 'e-fallback', to(group)),
    'e-no-route': await edgeTo(admin, 'e-no-route', undefined),
    'e-no-module': await edgeTo(admin, 'e-no-module', null),
    'e-disabled': await edgeTo(admin, 'e-disabled', to(fine, false)),
    'e-no-tls-all': await edgeTo(admin, 'e-no-tls-all', to(fine)),
    'e-no-tls-one': await edgeTo(admin, 'e-no-tls-one', to(fine)),
    'e-rejected': await edgeTo(admin, 'e-rejected', to(fine)),
    'e-no-names': await make(admin, '/edges/https', { description: 'e-no-names' }),
  }
  const tcp = await make(admin, '/edges/tcp', {
    description: 't-port',
    hostports: ['t.example:20001'],
    backend: to(fine),
  })
  await make(admin, '/backends/weighted', { description: 'g-no-weight', backends: { [fine.id]: 0 } })
  await furnishRest(db, admin)
  const uncovered = (...names: string[]) => ({
    ...{ names: 1, waiting: 0, firstExpiry: null, missing: names.length },
    uncovered: { accounts: [{ account: admin.accountId, count: names.length, names }], isCut: false },
  })
  const health = [fine, half, gone].flatMap(({ id }) => [
    seen(id, '192.0.2.1', id === gone.id ? 'down' : 'up'),
    seen(id, '192.0.2.2', id === fine.id ? 'up' : 'down'),
  ])
  const port = refusal(`tcp.${tcp.id}`, 'port 20001 is not served here')
  const usual = {
    'edge-1': {
      health: [...health, seen(failing.id, '192.0.2.3', 'failing')],
      refusals: [refusal(`https.${edges['e-rejected'].id}`, 'too many names'), port],
      certificates: uncovered('e-no-tls-all.example', 'e-no-tls-one.example'),
    },
    'edge-2': { health, refusals: [port], certificates: uncovered('e-no-tls-all.example') },
  }
  const reportUsual = () => Promise.all((['edge-1', 'edge-2'] as const).map((node) => report(node, usual[node])))
  return { edges, tcp, health, uncovered, usual, reportUsual }
}

/** Domains, certificates and webhooks, with what checks and deliveries would have written. */
async function furnishRest(db: DbPool, admin: Account): Promise<void> {
  const [old, soon, early] = await Promise.all(
    [
      ['c-old', 'd-expired.example', 30] as const,
      ['c-soon', 'c.example', 3] as const,
      ['c-early', 'c.example', 3] as const,
    ].map(([description, name, days]) =>
      make(admin, '/tls_certificates', { description, ...quickCertificate([name], days) }),
    ),
  )
  const domain = (name: string, more: object = {}) => make(admin, '/reserved_domains', { domain: name, ...more })
  await domain('d-pending.example')
  for (const name of ['d-gone.example', 'd-lapsed.example']) await domain(name)
  await domain('d-expired.example', { certificate_id: old.id })
  const account = toUuid(admin.accountId as Id<'ac'>)
  for (const [name, status] of [
    ['d-gone.example', 'failing'],
    ['d-lapsed.example', 'lapsed'],
    ['d-expired.example', 'verified'],
  ] as const)
    await run(
      db,
      sql`update reserved_domains set status = ${status}, verified_at = now(), checked_at = now(),
        lapses_at = case when ${status} = 'failing' then now() + interval '1 day' end
      where account_id = ${account} and domain = ${name}`,
    )
  const between = (id: string, from: string, to: string) =>
    run(
      db,
      sql`update tls_certificates set not_before = now() + ${from}::interval, not_after = now() + ${to}::interval
      where id = ${toUuid(id as Id<'cert'>)}`,
    )
  await between(old.id, '-30 days', '-1 minute')
  await between(soon.id, '-60 days', '3 days')
  await between(early.id, '1 hour', '30 days')
  const webhook = (description: string, more: object = {}) =>
    make(admin, '/webhook_destinations', {
      ...{ description, url: 'https://example.com/hook', operations: ['x.*'] },
      ...more,
    })
  const failing = await webhook('w-failing')
  await webhook('w-disabled', { enabled: false })
  await webhook('w-unused')
  await run(
    db,
    sql`update webhook_progress set failing_since = now() - interval '1 hour'
    where destination_id = ${toUuid(failing.id as Id<'whd'>)}`,
  )
}
