import { type DbPool, run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { type Id, newUuid, toUuid } from '../../src/kernel/ids.ts'
import { keepRequests } from '../../src/resources/requests/keep.ts'
import { addRequestPartitions } from '../../src/resources/requests/partitions.ts'
import { newCertificate } from '../harness/certificates.ts'
import type { Account } from '../harness/control_plane.ts'
import { keptRequest } from '../harness/edge_requests.ts'
import { freshHost, make } from '../harness/fixtures.ts'
import { getFrom, putRules, restrict } from '../harness/ip.ts'

/** An account with something on every page, and the pages. */
export async function furnish(admin: Account) {
  const key = await make(admin, '/api_keys', { description: 'nightly backup' })
  const bot = await make(admin, '/bot_users', { name: 'deploys' })
  const policy = await make(admin, '/ip_policies', { description: 'offices' })
  await putRules(admin, policy.id, ['allow 127.0.0.0/8 # here', 'deny 127.0.0.9 # not there'])
  const restriction = { type: 'api', description: 'offices only', ip_policy_ids: [policy.id] }
  await make(admin, '/ip_restrictions', restriction)
  const backend = await make(admin, '/backends/static', { address: 'app.internal:8080' })
  const edge = await make(admin, '/edges/https', { hostports: ['app.example:443'] })
  await make(admin, `/edges/https/${edge.id}/routes`, {
    match_type: 'path_prefix',
    match: '/',
    backend: { backend_id: backend.id },
    ip_restriction: { ip_policy_ids: [policy.id] },
    request_headers: { add: { 'X-Team': 'storage' }, remove: ['Cookie'] },
  })
  const tcp = await make(admin, '/edges/tcp', { hostports: ['db.example:20001'], backend: { backend_id: backend.id } })
  // Nothing answers there, so its page shows a failing delivery.
  const target = { type: 'edge', edge_id: tcp.id }
  await make(admin, '/access_tests', { description: 'partner', address: '203.0.113.7', target, expect: 'allowed' })
  const webhook = await make(admin, '/webhook_destinations', {
    url: 'https://hooks.invalid/audit',
    description: 'siem',
  })
  await make(admin, '/alert_rules', { kind: 'certificate_failing', description: 'late renewals' })
  const certificate = await make(admin, '/tls_certificates', {
    ...newCertificate(['app.example', '*.app.example']),
    description: 'the app',
  })
  const domain = await make(admin, '/reserved_domains', { domain: 'app.example', certificate_id: certificate.id })
  const changeSet = await make(admin, '/change_sets', {
    description: 'a longer name for the policy',
    changes: [
      { operation: 'ip_policies.update', parameters: { id: policy.id }, body: { description: 'Main offices' } },
    ],
  })
  const pages = [
    '/',
    '/traffic',
    '/keys',
    `/keys/${key.id}`,
    '/traffic/019a0000-0000-7000-8000-000000000000',
    '/policies',
    `/policies/${policy.id}`,
    '/restrictions',
    '/access-tests',
    '/rollouts',
    '/change-sets',
    `/change-sets/${changeSet.id}`,
    '/newly-refused',
    '/edges',
    `/edges/${edge.id}`,
    `/edges/${edge.id}?tab=checklist`,
    `/edges/${tcp.id}`,
    '/check?ip=127.0.0.9&target=api',
    '/audit',
    '/backends',
    `/backends/${backend.id}`,
    '/domains',
    `/domains/${domain.id}`,
    '/certificates',
    `/certificates/${certificate.id}`,
    '/nodes',
    '/people',
    `/people/${bot.id}`,
    '/alerts',
    '/settings',
    '/webhooks',
    `/webhooks/${webhook.id}`,
    `/webhooks/${webhook.id}?tab=dead`,
  ]
  return { policy, backend, edge, domain, certificate, pages }
}

/** One alert fires, of one it is not known whether it still does, and one is over. */
export async function furnishAlerts(db: DbPool, admin: Account, about: { backend: string; certificate: string }) {
  const account = toUuid(admin.accountId as Id<'ac'>)
  for (const [kind, id, reason, resolved, unclear] of [
    ['backend_down', about.backend, 'All of its servers are down: connection refused.', null, null],
    ['certificate_failing', about.certificate, 'It expires at 2026-11-25T00:00:00Z.', null, '5 minutes'],
    ['node_behind', 'edge-eu-central-1', 'It has not reported for 3 minutes.', '1 hour', null],
  ] as const) {
    // Its evaluation resolves it after five minutes at the earliest.
    const rule = await make(admin, '/alert_rules', { kind, for_seconds: 0, description: `watch ${kind}` })
    await run(
      db,
      sql`insert into alerts (account_id, id, rule_id, kind, resource_id, state, reason, since, fired_at, unclear_since, resolved_at)
      values (${account}, ${newUuid()}, ${toUuid(rule.id)}, ${kind}, ${id}, ${resolved ? 'resolved' : 'firing'}, ${reason},
        now() - interval '2 hours', now() - interval '2 hours', now() - ${unclear}::interval, now() - ${resolved}::interval)`,
    )
  }
}

/** One address of the backend is up and one down, on nodes with names as long as they get. */
export async function furnishHealth(db: DbPool, admin: Account, backendId: string): Promise<void> {
  for (const node of ['edge-eu-central-1', 'edge-eu-west-2', 'edge-us-east-1'])
    await run(
      db,
      sql`insert into backend_health (account_id, backend_id, node, address, port, status, reason, since, reported_at)
      select ${toUuid(admin.accountId as Id<'ac'>)}, ${toUuid(backendId as Id<'bkdst'>)}, ${node}, address::inet, 8080,
        status, reason, now() - interval '3 minutes', now() + interval '1 hour'
      from (values ('192.0.2.7', 'up', null), ('2001:db8:51:7::9', 'down', 'GET /healthz was answered with 503'))
        upstreams (address, status, reason)`,
    )
}

/** What became of requests to a route of an edge, as a node has delivered it: two were refused, the second by a rule. */
export async function furnishRequests(db: DbPool, admin: Account) {
  const policy = await make(admin, '/ip_policies', { description: 'Partners' })
  await putRules(admin, policy.id, ['allow 192.0.2.0/24', 'deny 203.0.113.5 # abuse'])
  const { body } = await admin('GET', `/ip_policies/${policy.id}/rules`)
  const rule = body.rules.find(({ action }: { action: string }) => action === 'deny')?.id
  const edge = await make(admin, '/edges/https', { hostports: [`${freshHost()}:443`] })
  const route = await make(admin, `/edges/https/${edge.id}/routes`, {
    match_type: 'path_prefix',
    match: '/',
    ip_restriction: { ip_policy_ids: [policy.id] },
  })
  const refused = { route: route.id, policy: policy.id }
  const requests = [
    { source: '198.51.100.7' },
    { source: '203.0.113.5', rule },
    { source: '203.0.113.6', outcome: 'warned', reason: null, status: 200 } as const,
    { source: '203.0.113.7', outcome: 'limited', reason: 'source', status: 429 } as const,
    { source: '203.0.113.8', outcome: 'failed', reason: 'no_route', status: 404, policy: null } as const,
  ].map((fields) => keptRequest(admin, edge, { ...refused, ...fields }))
  await addRequestPartitions(db, Date.now())
  await keepRequests(db, { node: 'edge-1', batch: newUuid(), requests, dropped: [] }, 1_000)
  return { route, requestIds: requests.slice(0, 2).map(({ id }) => id) }
}

/** 127.0.0.9 calls the API and is then shut out, by a replacement of the rules. */
export async function furnishRefusal(admin: Account, { port, name = 'networks' }: { port: number; name?: string }) {
  const policy = await make(admin, '/ip_policies', { description: name })
  await putRules(admin, policy.id, ['allow 127.0.0.0/8'])
  await restrict(admin, { type: 'api', description: `${name} only`, enforced: true, ip_policy_ids: [policy.id] })
  const call = () => getFrom({ host: '127.0.0.1', port, localAddress: '127.0.0.9' }, '/caller', admin.token, [])
  const statuses = [(await call()).status]
  await putRules(admin, policy.id, ['allow 127.0.0.1'])
  statuses.push((await call()).status)
  return { policy, statuses }
}
