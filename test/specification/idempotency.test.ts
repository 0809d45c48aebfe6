import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import type { Client } from '../harness/client.ts'
import { nothingWasADefect } from '../harness/defects.ts'
import {
  assertRefused,
  etagOf,
  freshHost,
  make,
  newBackend,
  newHttpsEdge,
  newPolicy,
  newTcpEdge,
} from '../harness/fixtures.ts'
import { newBot, newUser } from '../harness/principals.ts'
import { headersOf, json, rawExchange } from '../harness/raw.ts'
import { sharedControlPlane } from '../harness/shared_control_plane.ts'

const plane = await sharedControlPlane({ after })
const tcpPort = await plane.freshTcpPort()
const admin = await plane.newAccount()

const key = (value: string = randomUUID(), process = 0) => ({ headers: { 'idempotency-key': value }, process })
const countOf = async (as: Client, path: string, list: string) => (await as('GET', path)).body[list].length

/** Every POST that creates: a body that can be sent once, and where the path does not say it, where to. */
const creations: Record<string, { body: () => object | Promise<object>; to?: () => Promise<string> }> = {
  '/api_keys': { body: () => ({ description: 'd' }) },
  '/users': { body: () => ({ name: 'u', email: `${randomUUID()}@example.com` }) },
  '/bot_users': { body: () => ({ name: 'b' }) },
  '/ip_policies': { body: () => ({ metadata: 'm' }) },
  '/ip_policy_rules': {
    body: async () => ({ ip_policy_id: (await newPolicy(admin)).id, action: 'deny', cidr: '10.0.0.1' }),
  },
  '/ip_restrictions': { body: async () => ({ type: 'endpoints', ip_policy_ids: [(await newPolicy(admin)).id] }) },
  '/backends/static': { body: () => ({ address: 'app:1' }) },
  '/edges/tcp': { body: () => ({ hostports: [`${freshHost()}:${tcpPort}`] }) },
  '/edges/https': { body: () => ({ hostports: [`${freshHost()}:443`] }) },
  '/edges/https/{edge_id}/routes': {
    body: () => ({ match_type: 'exact_path', match: '/a' }),
    to: async () => `${(await newHttpsEdge(admin)).uri}/routes`,
  },
}

for (const [path, { body, to: toPath }] of Object.entries(creations)) {
  test(`POST ${path}: a repeated request returns what the first one created, and creates nothing`, async () => {
    const [to, sent, once] = [(await toPath?.()) ?? path, await body(), randomUUID()]
    const first = await admin('POST', to, sent, key(once))
    assert.equal(first.status, 201, first.text)
    assert.equal(first.headers.get('idempotency-replayed'), null)
    for (const process of [0, 1]) {
      const again = await admin('POST', to, sent, key(once, process))
      assert.equal(again.status, 201)
      assert.deepEqual(again.body, 'token' in first.body ? { ...first.body, token: null } : first.body)
      assert.equal(again.headers.get('idempotency-replayed'), 'true')
      assert.equal(etagOf(again), etagOf(first))
      assert.equal(again.headers.get('service-generation'), first.headers.get('service-generation'))
    }
    const { body: events } = await admin('GET', `/audit_events?resource_id=${first.body.id}`)
    assert.equal(events.audit_events.length, 1)
  })
}

test('a repeated request returns the Service-Generation of the creation', async () => {
  const once = key()
  const first = await admin('POST', '/edges/tcp', {}, once)
  assert.match(first.headers.get('service-generation') ?? '', /^\d+$/)
  await newTcpEdge(admin)
  assert.equal(
    (await admin('POST', '/edges/tcp', {}, once)).headers.get('service-generation'),
    first.headers.get('service-generation'),
  )
})

test('a replayed API key has token null and says that it was shown once', async () => {
  const once = key()
  const first = await admin('POST', '/api_keys', {}, once)
  assert.equal(typeof first.body.token, 'string')
  assert.equal(first.headers.get('service-warning'), null)
  const again = await admin('POST', '/api_keys', {}, once)
  assert.deepEqual([again.body.token, again.headers.get('service-warning')], [null, 'token=told_once'])
  assert.equal((await plane.clientFor(first.body.token)('GET', '/caller')).body.api_key.id, first.body.id)
})

test('a replayed API key says so beside the warnings of IP restrictions', async () => {
  const watched = await plane.newAccount()
  const { id } = await make(watched, '/ip_restrictions', {
    type: 'api',
    ip_policy_ids: [(await newPolicy(watched)).id],
  })
  const once = key()
  await watched('POST', '/api_keys', {}, once)
  const warnings = (await watched('POST', '/api_keys', {}, once)).headers.get('service-warning')
  assert.deepEqual(warnings?.split(', ').sort(), [`ip_restriction=${id}`, 'token=told_once'])
})

test('a repeated request shows what was created, even if it has changed or been deleted since', async () => {
  const once = key()
  const { body: policy } = await admin('POST', '/ip_policies', { description: 'then' }, once)
  await admin('PATCH', policy.uri, { description: 'now' })
  assert.deepEqual((await admin('POST', '/ip_policies', { description: 'then' }, once)).body, policy)
  await admin('DELETE', policy.uri)
  assert.deepEqual((await admin('POST', '/ip_policies', { description: 'then' }, once)).body, policy)
  assert.equal((await admin('GET', policy.uri)).status, 404)
})

test('the same key with another body gets 409', async () => {
  const once = key()
  const before = await countOf(admin, '/backends/static', 'backends')
  await admin('POST', '/backends/static', { address: 'a:1' }, once)
  for (const body of [{ address: 'a:2' }, { address: 'a:1', description: '' }, { address: 'A:1' }])
    assertRefused(await admin('POST', '/backends/static', body, once), 409, 'ERR_IDEMPOTENCY_KEY_USED')
  assert.equal(await countOf(admin, '/backends/static', 'backends'), before + 1)
})

test('the same key for another operation, or below another edge, gets 409', async () => {
  const once = key()
  await admin('POST', '/ip_policies', {}, once)
  assertRefused(await admin('POST', '/edges/tcp', {}, once), 409, 'ERR_IDEMPOTENCY_KEY_USED')
  const [one, two] = [await newHttpsEdge(admin), await newHttpsEdge(admin)]
  const [body, again] = [{ match_type: 'exact_path', match: '/' }, key()]
  assert.equal((await admin('POST', `${one.uri}/routes`, body, again)).status, 201)
  assertRefused(await admin('POST', `${two.uri}/routes`, body, again), 409, 'ERR_IDEMPOTENCY_KEY_USED')
  assert.deepEqual((await admin('GET', two.uri)).body.routes, [])
})

test('a key is its owner’s: other owners and other accounts may use the same one for their own', async () => {
  const mine = await plane.newAccount()
  const everyone = [mine, await newUser(plane, mine), await newBot(plane, mine), await plane.newAccount()]
  const once = key('deploy-1')
  const ids = []
  for (const client of everyone) {
    const { status, body, headers } = await client('POST', '/ip_policies', {}, once)
    assert.deepEqual([status, headers.get('idempotency-replayed')], [201, null])
    ids.push(body.id)
  }
  assert.equal(new Set(ids).size, 4)
  assertRefused(await mine('POST', '/ip_policies', { description: 'other' }, once), 409, 'ERR_IDEMPOTENCY_KEY_USED')
})

test('idempotency keys belong to the owner: another API key of theirs repeats the same request', async () => {
  const once = key()
  const second = plane.clientFor((await make(admin, '/api_keys')).token)
  const { body } = await admin('POST', '/ip_policies', {}, once)
  assert.equal((await second('POST', '/ip_policies', {}, once)).body.id, body.id)
})

test('a failed request does not use up the key', async () => {
  const taken = `${freshHost()}:${tcpPort}`
  const holder = await newTcpEdge(admin, { hostports: [taken] })
  const once = key()
  assertRefused(
    await admin('POST', '/edges/tcp', { hostports: ['nonsense'] }, once),
    400,
    'ERR_INVALID_FIELD',
    'hostports[0]',
  )
  assertRefused(
    await admin('POST', '/edges/tcp', { hostports: [taken] }, once),
    409,
    'ERR_HOSTPORT_TAKEN',
    'hostports[0]',
  )
  assertRefused(
    await admin(
      'POST',
      '/edges/https/edghts_00000000000000000000000000/routes',
      { match_type: 'exact_path', match: '/' },
      once,
    ),
    404,
    'ERR_NOT_FOUND',
  )
  assertRefused(
    await admin('POST', '/ip_restrictions', { type: 'api', ip_policy_ids: ['ipp_00000000000000000000000000'] }, once),
    400,
    'ERR_INVALID_FIELD',
    'ip_policy_ids[0]',
  )
  await admin('DELETE', holder.uri)
  const created = await admin('POST', '/edges/tcp', { hostports: [taken] }, once)
  assert.deepEqual([created.status, created.headers.get('idempotency-replayed')], [201, null])
})

test('a key counts for 24 hours', async () => {
  const age = async (value: string, by: string) => {
    const { rows } = await plane.db.query({
      text: 'update idempotency_keys set created_at = created_at - $2::interval where key = $1 returning key',
      values: [value, by],
    })
    assert.equal(rows.length, 1)
  }
  const once = randomUUID()
  const { body: first } = await admin('POST', '/ip_policies', {}, key(once))
  await age(once, '23 hours 59 minutes')
  assert.equal((await admin('POST', '/ip_policies', {}, key(once))).body.id, first.id)
  await age(once, '2 minutes')
  const {
    status,
    body: second,
    headers,
  } = await admin('POST', '/ip_policies', { description: 'another day' }, key(once))
  assert.deepEqual([status, headers.get('idempotency-replayed')], [201, null])
  assert.notEqual(second.id, first.id)
  // And from then on it counts for another 24 hours.
  assert.equal((await admin('POST', '/ip_policies', { description: 'another day' }, key(once))).body.id, second.id)
  assertRefused(await admin('POST', '/ip_policies', {}, key(once)), 409, 'ERR_IDEMPOTENCY_KEY_USED')
})

test('one of several concurrent repetitions through two processes creates, and all get the same response', async () => {
  for (let round = 0; round < 50; round++) {
    const once = randomUUID()
    const hostports = [`${freshHost()}:${tcpPort}`]
    const answers = await Promise.all(
      [0, 1, 0, 1].map((process) => admin('POST', '/edges/tcp', { hostports }, key(once, process))),
    )
    assert.deepEqual(
      answers.map(({ status }) => status),
      [201, 201, 201, 201],
      `round ${round}`,
    )
    assert.equal(new Set(answers.map(({ text }) => text)).size, 1)
    assert.equal(new Set(answers.map(({ headers }) => headers.get('service-generation'))).size, 1)
    assert.equal(answers.filter(({ headers }) => headers.get('idempotency-replayed') === null).length, 1)
  }
})

test('only one of several concurrent repetitions gets the token', async () => {
  for (let round = 0; round < 10; round++) {
    const once = randomUUID()
    const answers = await Promise.all([0, 1, 0, 1].map((process) => admin('POST', '/api_keys', {}, key(once, process))))
    assert.equal(answers.filter(({ body }) => body.token !== null).length, 1)
    assert.equal(new Set(answers.map(({ body }) => body.id)).size, 1)
  }
})

test('a repetition that waits for a failing request is executed itself', async () => {
  const taken = `${freshHost()}:${tcpPort}`
  await newTcpEdge(admin, { hostports: [taken] })
  for (let round = 0; round < 10; round++) {
    const once = randomUUID()
    const [refused, created] = await Promise.all([
      admin('POST', '/edges/tcp', { hostports: [taken] }, key(once, 0)),
      admin('POST', '/ip_policies', {}, key(once, 1)),
    ])
    assert.equal(created.status, 201)
    assert.equal(refused.status, 409)
  }
})

test('keys are 1 to 255 printable ASCII characters without spaces, in one header', async () => {
  for (const good of ['x', '~', '!', 'k'.repeat(255)])
    assert.equal((await admin('POST', '/ip_policies', {}, key(good))).status, 201)
  const before = await countOf(admin, '/ip_policies', 'ip_policies')
  const send = (...keys: string[]) =>
    rawExchange(plane, {
      method: 'POST',
      path: '/ip_policies',
      headers: [...headersOf(admin.token), json, ...keys.map((value) => ['Idempotency-Key', value] as const)],
      body: '{}',
    })
  for (const keys of [[''], ['k'.repeat(256)], ['a b'], ['a\tb'], ['\xe9'], ['a', 'b'], ['a', 'a']])
    assertRefused(await send(...keys), 400, 'ERR_INVALID_FIELD', 'Idempotency-Key')
  assert.equal(await countOf(admin, '/ip_policies', 'ip_policies'), before)
})

test('without an Idempotency-Key, every request creates', async () => {
  const ids = new Set()
  for (let count = 0; count < 3; count++) ids.add((await newBackend(admin)).id)
  assert.equal(ids.size, 3)
})

nothingWasADefect(plane)
