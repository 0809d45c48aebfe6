// How many of each thing an account may store: the limit, its count, and who may change it.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { quotaSettings } from '../src/config/quotas.ts'
import { readMigrations } from '../src/db/migrate.ts'
import { many } from '../src/db/pool.ts'
import { sql } from '../src/db/sql.ts'
import { toUuid } from '../src/kernel/ids.ts'
import { type QuotaKind, quotaKinds } from '../src/kernel/quotas.ts'
import type { Client } from './harness/client.ts'
import { gatehouse } from './harness/command.ts'
import { type Account, startControlPlane } from './harness/control_plane.ts'
import { assertRefused, make, newHttpsEdge, newRoute } from './harness/fixtures.ts'
import { poll } from './harness/poll.ts'
import { newBot, newUser } from './harness/principals.ts'
import { quickCertificate } from './harness/quick_certificates.ts'

const limit = 4
const small = {
  ...Object.fromEntries(Object.keys(quotaSettings).map((name) => [name, String(limit)])),
  // Fewer than edges, which they come with.
  GATEHOUSE_TCP_PORTS_PER_ACCOUNT: '3',
}
const plane = await startControlPlane({ after }, { processes: 2, env: small })

const usedBy = async (account: Client, kind: QuotaKind): Promise<{ used: number; limit: number }> =>
  (await account('GET', '/caller')).body.quotas[kind]

/** What the tables hold, counted one by one. */
async function countedFor({ accountId }: Account): Promise<Record<string, number>> {
  const id = toUuid(accountId as `ac_${string}`)
  const rows = await many<{ kind: string; used: number }>(
    plane.db,
    sql`
    select case kind when 'user' then 'users' else 'bot_users' end as kind, count(*) as used from principals where account_id = ${id} group by 1
    union all select 'api_keys', count(*) from api_keys where account_id = ${id}
    union all select 'identities', count(*) from identities where account_id = ${id}
    union all select 'ip_policies', count(*) from ip_policies where account_id = ${id}
    union all select 'ip_policy_rules', count(*) from ip_policy_rules where account_id = ${id}
    union all select 'ip_restrictions', count(*) from ip_restrictions where account_id = ${id}
    union all select case kind when 'route' then 'https_edge_routes' else kind || '_edges' end, count(*) from edges where account_id = ${id} group by 1
    union all select 'backends', count(*) from backends where account_id = ${id}
    union all select 'reserved_domains', count(*) from reserved_domains where account_id = ${id}
    union all select 'tls_certificates', count(*) from tls_certificates where account_id = ${id}
    union all select 'change_sets', count(*) from change_sets where account_id = ${id} and state in ('draft', 'waiting', 'approved')
    union all select 'access_tests', count(*) from access_tests where account_id = ${id}
    union all select 'alert_rules', count(*) from alert_rules where account_id = ${id}
    union all select 'webhook_destinations', count(*) from webhook_destinations where account_id = ${id}`,
  )
  return Object.fromEntries(rows.filter(({ used }) => used > 0).map(({ kind, used }) => [kind, used]))
}
const shownTo = async (account: Account): Promise<Record<string, number>> => {
  const { body } = await account('GET', '/caller')
  const uses = Object.entries(body.quotas as Record<string, { used: number }>)
  return Object.fromEntries(
    uses.filter(([kind, { used }]) => used > 0 && kind !== 'tcp_ports').map(([kind, { used }]) => [kind, used]),
  )
}

let names = 0
const name = () => `n${++names}`
/** How one of each kind is created. */
const creations: Record<QuotaKind, (account: Account) => Promise<(name: string) => [path: string, body: object]>> = {
  users: async () => (name) => ['/users', { name, email: `${name}@quota.example` }],
  bot_users: async () => (name) => ['/bot_users', { name }],
  api_keys: async () => () => ['/api_keys', {}],
  identities:
    async ({ adminId }) =>
    (subject) => ['/identities', { owner_id: adminId, issuer: 'https://id.example', subject }],
  ip_policies: async () => () => ['/ip_policies', {}],
  ip_policy_rules: async (account) => {
    const { id } = await make(account, '/ip_policies')
    return () => [
      '/ip_policy_rules',
      { ip_policy_id: id, action: 'allow', cidr: `10.0.${names % 250}.${++names % 250}/32` },
    ]
  },
  ip_restrictions: async (account) => {
    const { id } = await make(account, '/ip_policies')
    return () => ['/ip_restrictions', { type: 'agent', ip_policy_ids: [id], enforced: false }]
  },
  tcp_edges: async () => () => ['/edges/tcp', {}],
  tcp_ports: async () => () => ['/edges/tcp', { hostports: [`quota.example:${21_000 + ++names}`] }],
  https_edges: async () => () => ['/edges/https', {}],
  https_edge_routes: async (account) => {
    const { uri } = await newHttpsEdge(account)
    return (name) => [`${new URL(uri).pathname}/routes`, { match_type: 'path_prefix', match: `/${name}` }]
  },
  backends: async () => (name) => ['/backends/static', { address: `${name}.internal:80` }],
  reserved_domains: async () => (name) => ['/reserved_domains', { domain: `${name}.example` }],
  tls_certificates: async () => (name) => ['/tls_certificates', quickCertificate([`${name}.example`])],
  change_sets: async () => () => ['/change_sets', { changes: [{ operation: 'ip_policies.create' }] }],
  access_tests: async () => () => [
    '/access_tests',
    { address: '192.0.2.1', target: { type: 'api' }, expect: 'allowed' },
  ],
  alert_rules: async () => () => ['/alert_rules', { kind: 'backend_down' }],
  webhook_destinations: async () => (name) => [
    '/webhook_destinations',
    { url: `https://${name}.example/`, enabled: false },
  ],
}

for (const kind of Object.keys(quotaKinds) as QuotaKind[])
  test(`an account has at most its quota of ${quotaKinds[kind].called}, however many requests run at once`, async () => {
    const quota = kind === 'tcp_ports' ? 3 : limit
    const account = await plane.newAccount()
    const creation = await creations[kind](account)
    const { used } = await usedBy(account, kind)
    const before = await countedFor(account)
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, index) => account('POST', ...creation(name()), { process: index % 2 })),
    )
    const created = answers.filter(({ status }) => status === 201)
    assert.equal(created.length, quota - used, JSON.stringify(answers.map(({ status, body }) => [status, body.msg])))
    for (const refused of answers.filter(({ status }) => status !== 201)) {
      assertRefused(refused, 409, 'ERR_QUOTA')
      assert.equal(refused.body.details.kind, kind)
      assert.equal(refused.body.details.limit, String(quota))
      assert.match(refused.body.msg, new RegExp(`quota of this account is ${quota} ${quotaKinds[kind].called}`))
    }
    assert.deepEqual(await usedBy(account, kind), { used: quota, limit: quota })
    const isCounted = kind !== 'tcp_ports'
    if (isCounted) assert.deepEqual(await countedFor(account), { ...before, [kind]: quota })
    const [one] = created
    assert.equal((await account('DELETE', new URL(one?.body.uri).pathname)).status, 204)
    assert.equal((await account('POST', ...creation(name()))).status, 201, 'room again')
    const other = await plane.newAccount()
    assert.ok((await usedBy(other, kind)).used <= 1, 'of another account')
  })

const rulesOf = (count: number, net: number) =>
  Array.from({ length: count }, (_, index) => ({ action: 'allow', cidr: `10.${net}.0.${index}/32` }))

test('a rule set may use what is left of the quota and no more, even with two at once', async () => {
  const account = await plane.newAccount()
  const [one, two] = [await make(account, '/ip_policies'), await make(account, '/ip_policies')]
  const put = (policy: { uri: string }, rules: object[], process = 0) =>
    account('PUT', `${new URL(policy.uri).pathname}/rules`, { rules }, { process })
  const beyond = await put(one, rulesOf(limit + 1, 1))
  assertRefused(beyond, 409, 'ERR_QUOTA')
  assert.deepEqual([beyond.body.details.used, beyond.body.details.added], ['0', '5'])
  assert.equal((await usedBy(account, 'ip_policy_rules')).used, 0)
  const both = await Promise.all([put(one, rulesOf(3, 1), 0), put(two, rulesOf(3, 2), 1)])
  assert.deepEqual(both.map(({ status }) => status).toSorted(), [200, 409])
  const full = both[0].status === 200 ? one : two
  assert.equal((await put(full, rulesOf(limit, 3))).status, 200, 'others in place of them')
  assert.equal((await put(full, rulesOf(limit, 4))).status, 200, 'as many as before')
  assert.equal((await put(full, rulesOf(1, 5))).status, 200)
  assert.deepEqual(await shownTo(account), await countedFor(account))
})

test('what is deleted with something else is counted too', async () => {
  const account = await plane.newAccount()
  const [user, bot] = [await newUser(plane, account), await newBot(plane, account)]
  await make(user, '/api_keys')
  const policy = await make(account, '/ip_policies')
  await account('PUT', `${new URL(policy.uri).pathname}/rules`, { rules: rulesOf(3, 1) })
  const edge = await newHttpsEdge(account)
  await newRoute(account, {}, edge)
  assert.deepEqual(await shownTo(account), await countedFor(account))
  for (const uri of [
    policy.uri,
    edge.uri,
    `/users/${(await user('GET', '/caller')).body.owner_id}`,
    `/bot_users/${(await bot('GET', '/caller')).body.owner_id}`,
  ])
    assert.equal((await account('DELETE', uri)).status, 204)
  const left = await countedFor(account)
  assert.deepEqual(left, { users: 1, api_keys: 1 })
  assert.deepEqual(await shownTo(account), left)
})

test('counts stay right and small while things come and go on two processes', async () => {
  const account = await plane.newAccount()
  const churn = async (process: number) => {
    for (let round = 0; round < 40; round++) {
      const { status, body } = await account('POST', '/ip_policies', {}, { process })
      if (status === 201) await account('DELETE', body.uri, undefined, { process })
    }
  }
  await Promise.all([churn(0), churn(1), churn(0)])
  assert.deepEqual(await usedBy(account, 'ip_policies'), { used: 0, limit })
  const id = toUuid(account.accountId as `ac_${string}`)
  const [row] = await many<{ rows: number }>(
    plane.db,
    sql`select count(*) as rows from account_usage where account_id = ${id} and kind = 'ip_policies'`,
  )
  assert.ok((row?.rows ?? 0) <= 110, `${row?.rows} rows`)
})

test('the operator sets, lists and clears the quota of an account, and it holds from the next request on', async () => {
  const [admin, other] = [await plane.newAccount(), await plane.newAccount()]
  const run = (...args: string[]) => gatehouse(['quotas', ...args], { GATEHOUSE_DATABASE_URL: plane.databaseUrl })
  const policies = ['--account', admin.accountId, '--kind', 'ip_policies']
  const set = await run('set', ...policies, '--limit', '1')
  assert.equal(set.code, 0, set.stderr)
  const { account_id, kind, limit: own } = JSON.parse((await run('list')).stdout)
  assert.deepEqual([account_id, kind, own], [admin.accountId, 'ip_policies', 1])
  await make(admin, '/ip_policies')
  assertRefused(await admin('POST', '/ip_policies', {}), 409, 'ERR_QUOTA')
  assert.deepEqual(await usedBy(admin, 'ip_policies'), { used: 1, limit: 1 })
  assert.deepEqual(await usedBy(other, 'ip_policies'), { used: 0, limit })
  await run('set', ...policies, '--limit', '0')
  assertRefused(await admin('POST', '/ip_policies', {}), 409, 'ERR_QUOTA')
  const { body } = await admin('GET', '/audit_events?operation=server.set_quota')
  assert.deepEqual(body.audit_events[0].before, { kind: 'ip_policies', limit: 1 })
  assert.deepEqual(body.audit_events[0].after, { kind: 'ip_policies', limit: 0 })
  await run('clear', ...policies)
  await make(admin, '/ip_policies')
  for (const [args, said] of [
    [['set', ...policies], /--limit is required/],
    [['set', ...policies, '--limit', 'many'], /--limit must be a whole number/],
    [
      ['set', '--account', admin.accountId, '--kind', 'ip_restrictions', '--limit', '1001'],
      /--limit must be a whole number from 0 to 1000/,
    ],
    [['set', '--account', admin.accountId, '--kind', 'cats', '--limit', '1'], /--kind must be one of users, /],
    [['clear', '--account', 'no-account', '--kind', 'users'], /there is no account "no-account"/],
    [['raise'], /usage: gatehouse quotas/],
  ] as const) {
    const { code, stderr } = await run(...args)
    assert.notEqual(code, 0)
    assert.match(stderr, said)
  }
})

test('the metrics name accounts that have used most of a quota', async () => {
  const account = await plane.newAccount()
  for (let made = 0; made < limit; made++) await make(account, '/bot_users', { name: name() })
  const { origin } = await plane.startProcess(small)
  const text = await poll(
    async () => (await fetch(`${origin}/metrics`)).text(),
    (metrics) => metrics.includes(account.accountId),
  )
  assert.match(
    text,
    new RegExp(`^gatehouse_quota_used_ratio\\{account="${account.accountId}",kind="bot_users"\\} 1$`, 'm'),
  )
  assert.doesNotMatch(text, new RegExp(`account="${account.accountId}",kind="users"`))
})

test('what accounts had before there were quotas is counted by the migration that adds them', async () => {
  const accounts = [await plane.newAccount(), await plane.newAccount()]
  // The others came later.
  const kinds = (Object.keys(quotaKinds) as QuotaKind[]).filter(
    (kind) => !['change_sets', 'access_tests', 'alert_rules'].includes(kind),
  )
  for (const account of accounts)
    for (const kind of kinds) {
      const creation = await creations[kind](account)
      await make(account, ...creation(name()))
    }
  const migration = (await readMigrations()).find((each) => each.name.startsWith('0047_'))
  // The tables as they were before it, with all rows.
  const before = `
    drop function count_usage() cascade;
    drop function refuse_beyond_quota(uuid, text, bigint, bigint, boolean);
    drop function quota_of(uuid, text, bigint);
    drop table account_usage, account_quotas;`
  await plane.db.query({ text: `begin; ${before} ${migration?.text}; commit` })
  // New tables come without rights for the role of `serve`.
  const granting = { GATEHOUSE_DATABASE_URL: plane.databaseUrl, GATEHOUSE_DATABASE_APP_ROLE: 'gatehouse_app' }
  assert.equal((await gatehouse(['migrate'], granting)).code, 0)
  for (const account of accounts) {
    const counted = await countedFor(account)
    assert.equal(Object.keys(counted).length, kinds.length - 1, 'some of every kind')
    assert.deepEqual(await shownTo(account), counted)
    const policy = await make(account, '/ip_policies')
    assert.deepEqual(await usedBy(account, 'ip_policies'), { used: (counted.ip_policies ?? 0) + 1, limit })
    assert.equal((await account('DELETE', new URL(policy.uri).pathname)).status, 204)
    assert.deepEqual(await shownTo(account), counted)
  }
})
