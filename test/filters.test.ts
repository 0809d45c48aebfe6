// Lists narrowed by equality: what is found, page by page, and by which index.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Db } from '../src/db/pool.ts'
import type { Caller } from '../src/identity/caller.ts'
import { type Id, newId, toUuid } from '../src/kernel/ids.ts'
import { listApiKeys } from '../src/resources/api_keys/store.ts'
import { listBackends } from '../src/resources/backends/store.ts'
import { listEdges } from '../src/resources/edges/store.ts'
import { listPrincipals } from '../src/resources/principals/store.ts'
import { routes } from '../src/resources/routes.ts'
import { newCertificate } from './harness/certificates.ts'
import { publicUrl } from './harness/client.ts'
import { startControlPlane } from './harness/control_plane.ts'
import { nothingWasADefect } from './harness/defects.ts'
import {
  assertRefused,
  freshHost,
  make,
  newBackend,
  newHttpsEdge,
  newPolicy,
  newRoute,
  newTcpEdge,
} from './harness/fixtures.ts'
import { planOf } from './harness/plans.ts'

const plane = await startControlPlane({ after })
const admin = await plane.newAccount()
type Made = { id: string; uri: string }

const [policy, otherPolicy, backend, otherBackend] = [
  await newPolicy(admin),
  await newPolicy(admin),
  await newBackend(admin, { address: 'wanted.internal:80' }),
  await newBackend(admin),
]
const bot = await make(admin, '/bot_users', { name: 'deploy', active: false })
const person = await make(admin, '/users', { name: 'Grace', email: 'grace@example.com', role: 'viewer' })
const edge = await newHttpsEdge(admin)
const [host, port] = [freshHost(), 20_777]
const certificate = await make(admin, '/tls_certificates', newCertificate(['*.filters.example']))
const restriction = (type: string, enforced: boolean, { id }: Made) =>
  make(admin, '/ip_restrictions', { type, enforced, ip_policy_ids: [id] })
const moduleOf = ({ id }: Made) => ({ backend: { backend_id: id } })
const restrictedBy = ({ id }: Made) => ({ ip_restriction: { ip_policy_ids: [id] } })
const pathOf = ({ uri }: Made) => uri.slice(publicUrl.length)

/** By list and filter: what the filter is set to, and what makes one that it finds and one that it does not. */
const filters: Record<
  string,
  Record<string, { value: string; found: () => Promise<Made>; others: () => Promise<Made> }>
> = {
  'api_keys.list': {
    owner_id: {
      value: person.id,
      found: () => make(admin, '/api_keys', { owner_id: person.id }),
      others: () => make(admin, '/api_keys'),
    },
  },
  'ip_restrictions.list': {
    type: {
      value: 'dashboard',
      found: () => restriction('dashboard', false, otherPolicy),
      others: () => restriction('agent', false, otherPolicy),
    },
    enforced: {
      value: 'true',
      found: () => restriction('agent', true, otherPolicy),
      others: () => restriction('agent', false, otherPolicy),
    },
    ip_policy_id: {
      value: policy.id,
      found: () => restriction('agent', false, policy),
      others: () => restriction('agent', false, otherPolicy),
    },
  },
  'users.list': {
    name: {
      value: 'Linus & Co',
      found: () => make(admin, '/users', { name: 'Linus & Co', email: `${freshHost()}@example.com` }),
      others: () => make(admin, '/users', { name: 'Linus', email: `${freshHost()}@example.com` }),
    },
    active: {
      value: 'false',
      found: async () => {
        const { uri } = await make(admin, '/users', { name: 'I', email: `${freshHost()}@example.com` })
        return (await admin('PATCH', uri, { active: false })).body
      },
      others: () => make(admin, '/users', { name: 'M', email: `${freshHost()}@example.com` }),
    },
    role: {
      value: 'admin',
      found: () => make(admin, '/users', { name: 'A', email: `${freshHost()}@example.com`, role: 'admin' }),
      others: () => make(admin, '/users', { name: 'M', email: `${freshHost()}@example.com` }),
    },
  },
  'bot_users.list': {
    name: {
      value: 'nightly',
      found: () => make(admin, '/bot_users', { name: 'nightly' }),
      others: () => make(admin, '/bot_users', { name: 'weekly' }),
    },
    active: {
      value: 'false',
      found: () => make(admin, '/bot_users', { name: 'b', active: false }),
      others: () => make(admin, '/bot_users', { name: 'b' }),
    },
  },
  'tcp_edges.list': {
    backend_id: {
      value: backend.id,
      found: () => newTcpEdge(admin, moduleOf(backend)),
      others: () => newTcpEdge(admin, moduleOf(otherBackend)),
    },
    ip_policy_id: {
      value: policy.id,
      found: () => newTcpEdge(admin, restrictedBy(policy)),
      others: () => newTcpEdge(admin, restrictedBy(otherPolicy)),
    },
  },
  'https_edges.list': {
    backend_id: {
      value: backend.id,
      found: async () => {
        const made = await newHttpsEdge(admin)
        await newRoute(admin, moduleOf(backend), made)
        return made
      },
      others: () => newHttpsEdge(admin),
    },
    ip_policy_id: {
      value: policy.id,
      found: async () => {
        const made = await newHttpsEdge(admin)
        await newRoute(admin, restrictedBy(policy), made)
        return made
      },
      others: () => newHttpsEdge(admin),
    },
  },
  'https_edge_routes.list': {
    backend_id: {
      value: backend.id,
      found: () => newRoute(admin, moduleOf(backend), edge),
      others: () => newRoute(admin, moduleOf(otherBackend), edge),
    },
    ip_policy_id: {
      value: policy.id,
      found: () => newRoute(admin, restrictedBy(policy), edge),
      others: () => newRoute(admin, restrictedBy(otherPolicy), edge),
    },
  },
  'static_backends.list': {
    address: {
      value: 'WANTED.internal:81',
      found: () => newBackend(admin, { address: 'wanted.internal:81' }),
      others: () => newBackend(admin),
    },
  },
  'weighted_backends.list': {
    backend_id: {
      value: backend.id,
      found: () => make(admin, '/backends/weighted', { backends: { [backend.id]: 1 } }),
      others: () => make(admin, '/backends/weighted', { backends: { [otherBackend.id]: 1 } }),
    },
  },
  'failover_backends.list': {
    backend_id: {
      value: backend.id,
      found: () => make(admin, '/backends/failover', { backends: [otherBackend.id, backend.id] }),
      others: () => make(admin, '/backends/failover', { backends: [otherBackend.id] }),
    },
  },
  'reserved_domains.list': {
    certificate_id: {
      value: certificate.id,
      found: () =>
        make(admin, '/reserved_domains', {
          domain: `${freshHost().slice(0, 20)}.filters.example`,
          certificate_id: certificate.id,
        }),
      others: () => make(admin, '/reserved_domains', { domain: freshHost() }),
    },
  },
  'identities.list': {
    owner_id: {
      value: person.id,
      found: () =>
        make(admin, '/identities', { owner_id: person.id, issuer: 'https://id.example', subject: freshHost() }),
      others: () =>
        make(admin, '/identities', { owner_id: admin.adminId, issuer: 'https://id.example', subject: freshHost() }),
    },
  },
}

/** Filters that find one at most. */
const unique: Record<string, { filter: string; value: string; found: () => Promise<Made> }[]> = {
  'users.list': [{ filter: 'email', value: 'GRACE@example.com', found: async () => person }],
  'bot_users.list': [{ filter: 'name', value: 'deploy', found: async () => bot }],
  'tcp_edges.list': [
    {
      filter: 'hostport',
      value: `${host.toUpperCase()}:${port}`,
      found: () => newTcpEdge(admin, { hostports: [`${host}:${port}`] }),
    },
  ],
  'https_edges.list': [
    { filter: 'hostport', value: `*.${host}:443`, found: () => newHttpsEdge(admin, { hostports: [`*.${host}:443`] }) },
  ],
  'https_edge_routes.list': [{ filter: 'match', value: '/a/b', found: () => newRoute(admin, { match: '/a/b' }, edge) }],
  'reserved_domains.list': [
    { filter: 'domain', value: host.toUpperCase(), found: () => make(admin, '/reserved_domains', { domain: host }) },
  ],
}

const listOf = (operation: string): string => {
  const { path } = routes.find((route) => route.operation === operation) ?? assert.fail(operation)
  return path.replace(':edge_id', edge.id)
}
const walk = async (list: string, query: string): Promise<string[]> => {
  const ids: string[] = []
  let next: string | null = `${list}?${query}`
  while (next) {
    const { status, body, text }: Awaited<ReturnType<typeof admin>> = await admin('GET', next)
    assert.equal(status, 200, text)
    const [items] = Object.values(body).filter(Array.isArray)
    assert.ok(items?.length || !body.next_page_uri, 'an empty page has no next one')
    ids.push(...(items ?? []).map(({ id }) => id))
    next = body.next_page_uri
  }
  return ids
}

for (const [operation, byFilter] of Object.entries(filters))
  for (const [filter, { value, found, others }] of Object.entries(byFilter))
    test(`${operation}: ${filter} is kept from page to page, and finds what has it`, async () => {
      const [before, list] = [`${filter}=${encodeURIComponent(value)}&limit=1`, listOf(operation)]
      const had = await walk(list, before)
      const made: Made[] = []
      for (let n = 0; n < 3; n++) {
        await others()
        made.unshift(await found())
      }
      assert.deepEqual(await walk(list, before), [...made.map(({ id }) => id), ...had])
      const newest = made[0]?.id ?? assert.fail()
      assert.deepEqual(await walk(list, `${before}&before_id=${newest}`), [
        ...made.slice(1).map(({ id }) => id),
        ...had,
      ])
    })

for (const [operation, cases] of Object.entries(unique))
  for (const { filter, value, found } of cases)
    test(`${operation}: ${filter} finds the only one, in every spelling`, async () => {
      const { id } = await found()
      assert.deepEqual(await walk(listOf(operation), `${filter}=${encodeURIComponent(value)}`), [id])
    })

test('every filter of these lists was tried', () => {
  for (const operation of new Set([...Object.keys(filters), ...Object.keys(unique)])) {
    const { query } = routes.find((route) => route.operation === operation) ?? assert.fail(operation)
    const tried = [...Object.keys(filters[operation] ?? {}), ...(unique[operation] ?? []).map(({ filter }) => filter)]
    const known = Object.keys(query?.properties).filter(
      (name) => !['limit', 'before_id', 'descendants_of'].includes(name),
    )
    assert.deepEqual([...new Set(tried)].toSorted(), known.toSorted(), operation)
  }
})

test('filters can be combined', async () => {
  const { id } = await restriction('endpoints', true, policy)
  const query = `type=endpoints&enforced=true&ip_policy_id=${policy.id}`
  assert.deepEqual(await walk('/ip_restrictions', query), [id])
  assert.deepEqual(await walk('/ip_restrictions', query.replace('true', 'false')), [])
})

test('a filter that a list does not have, or a value that it cannot have, is refused', async () => {
  assertRefused(await admin('GET', '/ip_policies?type=api'), 400, 'ERR_INVALID_FIELD', 'type')
  assertRefused(await admin('GET', '/ip_restrictions?type=other'), 400, 'ERR_INVALID_FIELD', 'type')
  assertRefused(await admin('GET', '/ip_restrictions?enforced=1'), 400, 'ERR_INVALID_FIELD', 'enforced')
  assertRefused(await admin('GET', '/edges/https?hostport=x'), 400, 'ERR_INVALID_FIELD', 'hostport')
  assertRefused(await admin('GET', `/api_keys?owner_id=${policy.id}`), 400, 'ERR_INVALID_FIELD', 'owner_id')
})

test('the routes of an edge are a list like any other', async () => {
  const own = await newHttpsEdge(admin)
  const made = [await newRoute(admin, {}, own), await newRoute(admin, {}, own), await newRoute(admin, {}, own)]
  await newRoute(admin)
  const { body } = await admin('GET', `${own.uri}/routes?limit=2`)
  assert.deepEqual(body.https_edge_routes, [made[2], made[1]])
  assert.equal(body.uri, `${own.uri}/routes`)
  assert.deepEqual(await walk(`${pathOf(own)}/routes`, 'limit=1'), made.map(({ id }) => id).toReversed())
  const empty = await newHttpsEdge(admin)
  assert.deepEqual((await admin('GET', `${empty.uri}/routes`)).body, {
    https_edge_routes: [],
    uri: `${empty.uri}/routes`,
    next_page_uri: null,
  })
  const stranger = await plane.newAccount()
  for (const as of [stranger, admin]) {
    const path = as === admin ? `/edges/https/${newId('edghts')}/routes` : `${own.uri}/routes`
    assertRefused(await as('GET', path), 404, 'ERR_NOT_FOUND')
  }
})

/** The statement that the code really sends, explained. */
async function planFor(ask: (db: Db) => Promise<unknown>): Promise<string> {
  const plans: string[] = []
  await ask({
    async query({ text, values = [] }) {
      plans.push(await planOf(plane.db, { text, values }))
      return { rows: [] }
    },
  })
  return plans[0] ?? assert.fail('nothing was asked')
}

test('a filter of a list that can be long goes by an index', async () => {
  // Many of one account, so that reading all of them would be the wrong plan.
  const accountId = toUuid(admin.accountId as Id)
  const fill = async (text: string) => plane.db.query({ text, values: [accountId] })
  await fill(`insert into api_keys (account_id, id, owner_id, owner_kind, token_hash)
    select $1, gen_random_uuid(), (select id from principals where account_id = $1 limit 1), 'user', sha256(n::text::bytea)
    from generate_series(1, 5000) n`)
  await fill(`insert into principals (account_id, id, kind, name, role)
    select $1, gen_random_uuid(), 'bot', 'n' || n, 'member' from generate_series(1, 5000) n`)
  await fill(`insert into backends (account_id, id, kind, address, tls_enabled)
    select $1, gen_random_uuid(), 'static', 'h' || n || ':80', false from generate_series(1, 5000) n`)
  await fill(
    `insert into edges (account_id, id, kind) select $1, gen_random_uuid(), 'tcp' from generate_series(1, 5000) n`,
  )
  const made = `from edges where account_id = $1 and kind = 'tcp' on conflict do nothing`
  const modulesOf = (module: string, backendId: string) =>
    `insert into edge_modules (account_id, edge_id, module, enabled, settings, backend_id)
     select account_id, id, '${module}', true, '{}', ${backendId} ${made}`
  await fill(modulesOf('backend', `'${toUuid(otherBackend.id as Id)}'::uuid`))
  await fill(modulesOf('ip_restriction', 'null::uuid'))
  await fill(`insert into edge_module_policies (account_id, edge_id, module, ip_policy_id, position)
    select account_id, id, 'ip_restriction', '${toUuid(otherPolicy.id as Id)}'::uuid, 1 ${made}`)
  await fill(`insert into hostports (hostport, account_id, edge_id, position)
    select 'h' || row_number() over () || '.example:20999', account_id, id, 1 ${made}`)
  for (const table of [
    'api_keys',
    'principals',
    'backends',
    'edges',
    'hostports',
    'edge_modules',
    'edge_module_policies',
  ])
    await plane.db.query({ text: `analyze ${table}` })
  const caller = { accountId } as Caller
  const backend_id = newId('bkdst')
  const ip_policy_id = newId('ipp')
  const wanted: [index: string, ask: (db: Db) => Promise<unknown>][] = [
    ['api_keys_of_owner', (db) => listApiKeys(db, caller, { owner_id: newId('usr') })],
    ['principals_of_name', (db) => listPrincipals(db, caller, 'bot', { name: 'x' })],
    ['principals_email_unique', (db) => listPrincipals(db, caller, 'user', { email: 'x' })],
    ['backends_of_address', (db) => listBackends(db, caller, 'static', { address: 'x:80' })],
    ['hostports_pkey', (db) => listEdges(db, caller, 'tcp', { hostport: 'x:80' })],
    ['edge_modules_of_backend', (db) => listEdges(db, caller, 'tcp', { backend_id })],
    ['edge_modules_of_backend', (db) => listEdges(db, caller, 'https', { backend_id })],
    ['edge_module_policies_of_policy', (db) => listEdges(db, caller, 'tcp', { ip_policy_id })],
  ]
  for (const [index, ask] of wanted) {
    const plan = await planFor(ask)
    assert.match(plan, new RegExp(index), plan)
    assert.doesNotMatch(plan, /Seq Scan on (api_keys|principals|backends|edges)\b/, plan)
  }
})

nothingWasADefect(plane)
