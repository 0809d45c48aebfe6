import { repairRollUps } from '../../src/access/evidence/roll_ups.ts'
import { addRuleHits, dayOf } from '../../src/access/evidence/rule_hits.ts'
import { createCell } from '../../src/commands/cells/cells.ts'
import { place } from '../../src/commands/cells/placement.ts'
import { version } from '../../src/config/version.ts'
import { type DbPool, run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { type Id, newUuid, toUuid } from '../../src/kernel/ids.ts'
import { keepRequests } from '../../src/resources/requests/keep.ts'
import { addRequestPartitions } from '../../src/resources/requests/partitions.ts'
import { newCertificate } from '../harness/certificates.ts'
import type { Account } from '../harness/control_plane.ts'
import { keptRequest, uuidAt } from '../harness/edge_requests.ts'
import { make } from '../harness/fixtures.ts'
import { putRules } from '../harness/ip.ts'

const nodes = ['fra-1', 'ams-1', 'iad-1']
const cellOf = (node: string): string => (node === 'iad-1' ? 'us' : 'eu')
const partners = [
  'allow 192.0.2.0/26 # Meridian Freight, order sync',
  'allow 198.51.100.128/26 # Bluebird Payments, webhooks',
  'allow 198.51.100.160/28 # Bluebird Payments, webhooks EU',
  'allow 2001:db8:40::/44 # Meridian Freight, IPv6',
  'deny 198.51.100.130 # Bluebird Payments, load tester',
  'allow 203.0.113.80/29 # Hollis Print, label service',
  'allow 203.0.113.196 # Hollis Print, old fax gateway',
  'deny 203.0.113.192/26 # Range resold, reported for abuse',
  'allow 192.0.2.64/28 # Kestrel Analytics, nightly export',
  'allow 198.51.100.64/29 expires=2027-03-01T00:00:00Z # Kestrel Analytics, staging',
  'allow 192.0.2.200/30 # Old Tannery, catalogue import',
  'allow 2001:db8:7c::/48 # Kestrel Analytics, IPv6',
  'allow 203.0.113.8/31 # Quill Support, screen sharing',
  'allow 198.51.100.244 # Quill Support, remote desk',
]
const inDays = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString()

/** A shop's account, as it might be after a year: what the pictures of a product should show. */
export async function furnishShop(db: DbPool, admin: Account) {
  const account = toUuid(admin.accountId as Id<'ac'>)
  await run(db, sql`update accounts set name = 'Outdoor Outfitters' where id = ${account}`)
  await furnishPeople(admin)
  for (const name of ['eu', 'us']) await createCell(db, { name, isDefault: false, confirmed: false })
  await place(db, { id: account, name: 'Outdoor Outfitters' }, ['eu', 'us'], false)
  const offices = await make(admin, '/ip_policies', { description: 'Offices and VPN exits' })
  await putRules(admin, offices.id, ['allow 127.0.0.0/8 # Berlin office', 'allow 203.0.113.24/29 # VPN exits'])
  const policy = await make(admin, '/ip_policies', { description: 'Partner networks' })
  await putRules(admin, policy.id, partners)
  const feed = await make(admin, '/ip_policies', { description: 'Threat feed' })
  await putRules(admin, feed.id, [
    'allow 0.0.0.0/0 # everyone else',
    'deny 203.0.113.201 # credential stuffing',
    ...Array.from({ length: 600 }, (_, n) => `deny 203.0.${n % 113}.${(n * 7) % 256} # feed entry ${n}`),
  ])
  const restriction = (fields: object) => make(admin, '/ip_restrictions', fields)
  await restriction({ type: 'api', description: 'Offices and CI', ip_policy_ids: [offices.id], enforced: true })
  await restriction({ type: 'dashboard', description: 'Offices for people', ip_policy_ids: [offices.id] })
  const abuse = await restriction({
    type: 'endpoints',
    description: 'Block known abusers',
    ip_policy_ids: [feed.id],
    enforced: true,
  })
  const trial = await restriction({
    type: 'endpoints',
    description: 'Shop countries (trial)',
    ip_policy_ids: [policy.id],
  })

  const check = { type: 'http', path: '/healthz' }
  const [pool, backup, api, store] = [
    await make(admin, '/backends/static', {
      address: '10.20.4.11:8080',
      description: 'Storefront',
      health_check: check,
    }),
    await make(admin, '/backends/static', { address: '10.20.4.13:8080', description: 'Storefront spare' }),
    await make(admin, '/backends/static', { address: '10.20.6.21:8443', description: 'Public API', tls: {} }),
    await make(admin, '/backends/static', { address: 's3.eu.outdoor.example:443', description: 'Object store' }),
  ]
  const both = await make(admin, '/backends/failover', {
    description: 'Storefront pool',
    backends: [pool.id, backup.id],
  })
  const edge = await make(admin, '/edges/https', {
    description: 'Storefront',
    hostports: ['shop.outdoor.example:443', 'www.outdoor.example:443'],
  })
  const route = (match: string, backend: { id: string }, more: object = {}) =>
    make(admin, `/edges/https/${edge.id}/routes`, {
      match_type: 'path_prefix',
      match,
      backend: { backend_id: backend.id },
      ...more,
    })
  await route('/', both, { request_headers: { add: { 'X-Shop': 'de', 'X-Team': 'web' }, remove: ['Cookie'] } })
  const toApi = await route('/api/', api, {
    ip_restriction: { ip_policy_ids: [policy.id] },
    request_headers: { add: { 'X-Release': '2026-11-12.3' } },
  })
  const toAdmin = await route('/admin', pool, { ip_restriction: { ip_policy_ids: [offices.id, policy.id] } })
  await route('/media/', store)
  await make(admin, '/edges/https', { description: 'Grafana', hostports: ['grafana.outdoor.example:443'] })
  const tcp = await make(admin, '/edges/tcp', {
    description: 'Orders database',
    hostports: ['db.outdoor.example:20001'],
    cells: ['eu'],
    backend: { backend_id: pool.id },
    ip_restriction: { ip_policy_ids: [offices.id] },
  })

  await run(
    db,
    sql`insert into ip_restriction_counts (account_id, ip_restriction_id, hour, source_ip, outcome, count, last_at)
    select ${account}, r.id, date_trunc('hour', now()) - h * interval '1 hour', r.ip::inet, r.outcome,
      (40 + 30 * abs(sin(h)) + case when h between 14 and 17 then 500 else 0 end)::int, now() - h * interval '1 hour'
    from generate_series(0, 23) h, (values
      (${toUuid(abuse.id as Id<'ipx'>)}::uuid, '203.0.113.201', 'refused'),
      (${toUuid(abuse.id as Id<'ipx'>)}::uuid, '2001:db8:51:7::9', 'refused'),
      (${toUuid(trial.id as Id<'ipx'>)}::uuid, '192.0.2.144', 'warned')) r (id, ip, outcome)`,
  )
  await run(
    db,
    sql`insert into edge_counts (account_id, edge_id, hour, source_ip, outcome, by_module, count, last_at)
    select ${account}, ${toUuid(toApi.id as Id<'edghtsrt'>)}, date_trunc('hour', now()) - h * interval '1 hour', '192.0.2.151',
      'refused', true, 12 + h, now() - h * interval '1 hour' from generate_series(0, 8) h`,
  )
  await furnishHits(db, admin, policy.id)
  await repairRollUps(db)
  const ruleOf = async (policyId: string, cidr: string) => {
    const { body } = await admin('GET', `/ip_policies/${policyId}/rules`)
    return body.rules.find((rule: { cidr: string }) => rule.cidr === cidr).id
  }
  const requests = await furnishRequests(
    db,
    admin,
    [
      {
        source: '203.0.113.201',
        method: 'POST',
        path: '/login',
        restriction: abuse.id,
        policy: feed.id,
        rule: await ruleOf(feed.id, '203.0.113.201/32'),
      },
      {
        source: '198.51.100.142',
        path: '/tents/alpine-2',
        outcome: 'warned',
        reason: null,
        status: 200,
        restriction: trial.id,
        policy: policy.id,
      },
      {
        source: '192.0.2.18',
        path: '/api/v2/stock',
        route: toApi.id,
        outcome: 'failed',
        reason: 'response_timeout',
        status: 504,
        upstream: '10.20.6.21:8443',
        durationMs: 60_012,
      },
      { source: '198.51.100.77', path: '/admin/orders', route: toAdmin.id, policy: offices.id },
      { source: '192.0.2.144', method: 'POST', path: '/api/v2/orders', route: toApi.id, policy: policy.id },
      { source: '2001:db8:51:7::9', path: '/.env', restriction: abuse.id, policy: feed.id, node: 'iad-1' },
      { source: '198.51.100.30', method: 'POST', path: '/api/cart', outcome: 'limited', reason: 'source', status: 503 },
      {
        source: '198.51.100.9',
        edge: tcp.id,
        protocol: 'tcp',
        method: null,
        host: null,
        path: null,
        status: null,
        policy: offices.id,
        node: 'ams-1',
      },
      {
        source: '203.0.113.196',
        path: '/api/labels',
        route: toApi.id,
        policy: policy.id,
        rule: await ruleOf(policy.id, '203.0.113.192/26'),
      },
      {
        source: '198.51.100.201',
        path: '/boots',
        outcome: 'failed',
        reason: 'connect_failed',
        status: 503,
        upstream: '10.20.4.13:8080',
      },
    ].map((fields) => ({ edge: edge.id, ...fields })),
  )
  const { domain, certificate } = await furnishDomains(db, admin)
  const webhook = await furnishWebhook(db, admin)
  await furnishNodes(db, admin, [
    [pool.id, '10.20.4.11', 8080, 'up', null],
    [backup.id, '10.20.4.13', 8080, 'down', 'GET /healthz was answered with 503'],
    [api.id, '10.20.6.21', 8443, 'up', null],
  ])
  return { policy, offices, domain, certificate, edge, toApi, tcp, webhook, request: requests[8] ?? '' }
}

type Upstream = [backend: string, address: string, port: number, status: string, reason: string | null]

/**
 * Live for an hour, without a report: these are pictures. A control plane knows of them that starts after this. Last of
 * all, since they have applied every change.
 */
async function furnishNodes(db: DbPool, admin: Account, upstreams: readonly Upstream[]): Promise<void> {
  const account = toUuid(admin.accountId as Id<'ac'>)
  for (const node of nodes) {
    await run(
      db,
      sql`insert into fleet_nodes (nats_account, name, nats_user, node_key, joined_at, cell_id)
      select ${node}, ${node}, 'a user', 'a key', now() - interval '40 days', id from cells where name = ${cellOf(node)}`,
    )
    await run(
      db,
      sql`insert into edge_nodes (name, version, applied_generation, records, refusals, started_at, last_seen_at, cell_id)
      select ${node}, ${version}, (select coalesce(max(generation), 0) from outbox), 652, '[]', now() - interval '9 days',
        now() + interval '1 hour', id from cells where name = ${cellOf(node)} on conflict do nothing`,
    )
    for (const [backend, address, port, status, reason] of upstreams)
      await run(
        db,
        sql`insert into backend_health (account_id, backend_id, node, address, port, status, reason, since, reported_at)
        values (${account}, ${toUuid(backend as Id<'bkdst'>)}, ${node}, ${address}, ${port}, ${status}, ${reason},
          now() - interval '33 minutes', now() + interval '1 hour')`,
      )
  }
}

async function furnishDomains(db: DbPool, admin: Account) {
  const upload = (description: string, names: string[]) =>
    make(admin, '/tls_certificates', { ...newCertificate(names, { days: 80 }), description })
  const certificate = await upload('Shop and its subdomains', ['outfitters.example', '*.outfitters.example'])
  const late = await upload('Partner portal', ['partners.example'])
  await upload('Old campaign', ['summer-sale.example'])
  const domain = await make(admin, '/reserved_domains', {
    domain: 'outfitters.example',
    description: 'The shop',
    certificate_id: certificate.id,
  })
  await make(admin, '/reserved_domains', { domain: 'partners.example', certificate_id: late.id })
  await make(admin, '/reserved_domains', { domain: 'new-brand.example' })
  await run(
    db,
    sql`update reserved_domains set status = 'verified', verified_at = now(), checked_at = now()
    where domain = 'partners.example'`,
  )
  await run(
    db,
    sql`update tls_certificates set not_before = now() - interval '80 days', not_after = now() + interval '4 days'
    where description = 'Partner portal'`,
  )
  return { domain, certificate }
}

/** Some rules decide all the time and others never did, as far as anybody has counted. */
async function furnishHits(db: DbPool, admin: Account, policyId: string): Promise<void> {
  const began = sql`now() - interval '90 days'`
  await run(db, sql`update ip_rule_counting set began_at = ${began}`)
  await run(
    db,
    sql`update ip_policy_rules set created_at = ${began} where ip_policy_id = ${toUuid(policyId as Id<'ipp'>)}`,
  )
  const { body } = await admin('GET', `/ip_policies/${policyId}/rules`)
  const hits = {
    '192.0.2.0/26': 1_284_410,
    '198.51.100.128/26': 402_118,
    '2001:db8:40::/44': 218_903,
    '203.0.113.80/29': 88_214,
    '203.0.113.192/26': 9_612,
    '198.51.100.130/32': 1_207,
    '192.0.2.64/28': 31,
    '203.0.113.8/31': 5_402,
  }
  await addRuleHits(
    db,
    Object.entries(hits).map(([cidr, count], place) => {
      const { id, action } = body.rules.find((rule: { cidr: string }) => rule.cidr === cidr)
      const [allowed, refused] = action === 'allow' ? [count, 0] : [0, count]
      const lastAt = Date.now() - place ** 4 * 7_000
      return {
        accountId: toUuid(admin.accountId as Id<'ac'>),
        ruleId: toUuid(id),
        day: dayOf(lastAt),
        lastAt,
        allowed,
        refused,
        warned: 0,
      }
    }),
  )
}

/** Kept as if a node had told of them, one every few seconds; resolves to their ids. */
async function furnishRequests(db: DbPool, admin: Account, told: Record<string, unknown>[]): Promise<string[]> {
  await addRequestPartitions(db, Date.now())
  const requests = told.map((fields, place) => {
    const moment = Date.now() - place * 7_300
    const { edge, ...rest } = fields
    return keptRequest(
      admin,
      { id: edge as string },
      {
        id: uuidAt(moment),
        at: new Date(moment).toISOString(),
        host: 'shop.outdoor.example',
        generation: 26,
        ...(rest.outcome === undefined && rest.restriction !== undefined && { reason: 'restriction' }),
        ...rest,
      },
    )
  })
  for (const node of nodes)
    await keepRequests(
      db,
      { node, batch: newUuid(), requests: requests.filter((request) => nodeOf(request.node) === node), dropped: [] },
      1_000,
    )
  return requests.map(({ id }) => id)
}
const nodeOf = (told: string): string => (nodes.includes(told) ? told : 'fra-1')

/** A receiver that had a bad hour. Nothing is sent: the destination is disabled. */
async function furnishWebhook(db: DbPool, admin: Account) {
  const webhook = await make(admin, '/webhook_destinations', {
    url: 'https://siem.outdoor.example/gatehouse',
    description: 'Security monitoring',
    operations: ['api_keys.*', 'ip_policies.*'],
    enabled: false,
  })
  await run(
    db,
    sql`
    insert into webhook_deliveries
      (account_id, destination_id, event_id, position, operation, resource_id, status, attempts, last_attempt_at, last_status, last_error)
    select account_id, ${toUuid(webhook.id as Id<'whd'>)}, id, position, operation, resource_id,
      case number % 5 when 3 then 'dead' else 'delivered' end, case number % 5 when 3 then 9 else 1 end, created_at,
      case number % 5 when 3 then 503 else 204 end, case number % 5 when 3 then 'status 503' end
    from (
      select *, row_number() over (order by id desc) as number from audit_events
      where account_id = ${toUuid(admin.accountId as Id<'ac'>)} order by id desc limit 14) recent`,
  )
  return webhook
}

async function furnishPeople(admin: Account) {
  for (const name of ['Helen', 'Peter', 'Marcus'])
    await make(admin, '/users', { name, email: `${name.toLowerCase()}@outdoor.example`, role: 'member' })
  const deploy = await make(admin, '/bot_users', { name: 'deploy pipeline' })
  const backup = await make(admin, '/bot_users', { name: 'nightly backup' })
  const key = (description: string, more: object = {}) => make(admin, '/api_keys', { description, ...more })
  await key('Grafana', { scopes: ['*.get', '*.list'], expires_at: inDays(330) })
  await key('Deploy pipeline', { owner_id: deploy.id, allowed_cidrs: ['192.0.2.16/28'], expires_at: inDays(3) })
  await key('Nightly backup', { owner_id: backup.id, scopes: ['audit_events.list'], expires_at: inDays(240) })
  await key('Warehouse scanner', { scopes: ['ip_checks.create', 'ip_policies.list', 'ip_policies.get'] })
}
