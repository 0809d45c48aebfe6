import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { nothingWasADefect } from '../harness/defects.ts'
import {
  assertRefused,
  etagOf,
  freshHost,
  ifMatch,
  make,
  newBackend,
  newHttpsEdge,
  newPolicy,
  newRoute,
  newTcpEdge,
} from '../harness/fixtures.ts'
import { newBot, newUser } from '../harness/principals.ts'
import { sharedControlPlane } from '../harness/shared_control_plane.ts'
import { sized } from '../harness/thorough.ts'

const plane = await sharedControlPlane({ after })
const tcpPort = await plane.freshTcpPort()
const admin = await plane.newAccount()
const [policy, other, backend] = [await newPolicy(admin), await newPolicy(admin), await newBackend(admin)]

type Made = { id: string; uri: string }
/** One of every kind, and a PATCH that changes it. `n` makes each change another one. */
const kinds: Record<string, { create: () => Promise<Made>; patch: (n: number) => object }> = {
  'API key': { create: () => make(admin, '/api_keys'), patch: (n) => ({ description: `${n}` }) },
  bot: { create: () => make(admin, '/bot_users', { name: 'b' }), patch: (n) => ({ name: `${n}` }) },
  user: {
    create: () => make(admin, '/users', { name: 'u', email: `${freshHost()}@example.com` }),
    patch: (n) => ({ name: `${n}` }),
  },
  'IP policy': { create: () => newPolicy(admin), patch: (n) => ({ description: `${n}` }) },
  'IP policy rule': {
    create: async () =>
      make(admin, '/ip_policy_rules', {
        ip_policy_id: (await newPolicy(admin)).id,
        action: 'allow',
        cidr: '10.0.0.0/8',
      }),
    patch: (n) => ({ cidr: `10.0.0.${n + 1}` }),
  },
  'IP restriction': {
    create: () => make(admin, '/ip_restrictions', { type: 'agent', ip_policy_ids: [policy.id, other.id] }),
    patch: (n) => ({ ip_policy_ids: [n % 2 ? policy.id : other.id] }),
  },
  'static backend': { create: () => newBackend(admin), patch: (n) => ({ address: `app:${n + 1}` }) },
  'TCP edge (description)': { create: () => newTcpEdge(admin), patch: (n) => ({ description: `${n}` }) },
  'TCP edge (hostports)': {
    create: () => newTcpEdge(admin),
    patch: () => ({ hostports: [`${freshHost()}:${tcpPort}`] }),
  },
  'TCP edge (module)': {
    create: () => newTcpEdge(admin),
    patch: (n) => ({ ip_restriction: { ip_policy_ids: [n % 2 ? policy.id : other.id] } }),
  },
  'HTTPS edge': { create: () => newHttpsEdge(admin), patch: () => ({ hostports: [`${freshHost()}:443`] }) },
  'HTTPS edge route (match)': { create: () => newRoute(admin), patch: (n) => ({ match: `/patched/${n}` }) },
  'HTTPS edge route (module)': {
    create: () => newRoute(admin),
    patch: (n) => ({ request_headers: { add: { 'X-N': `${n}` } } }),
  },
}
/** One of every module, and another body for it. */
const modules: Record<string, { create: () => Promise<string>; body: (n: number) => object }> = {
  'backend of a TCP edge': {
    create: async () => `${(await newTcpEdge(admin)).uri}/backend`,
    body: (n) => ({ enabled: n % 2 === 0, backend_id: backend.id }),
  },
  'ip_restriction of a TCP edge': {
    create: async () => `${(await newTcpEdge(admin)).uri}/ip_restriction`,
    body: (n) => ({ ip_policy_ids: [n % 2 ? policy.id : other.id] }),
  },
  'ip_restriction of a route': {
    create: async () => `${(await newRoute(admin)).uri}/ip_restriction`,
    body: (n) => ({ enabled: n % 2 === 0, ip_policy_ids: [policy.id] }),
  },
  'request_headers of a route': {
    create: async () => `${(await newRoute(admin)).uri}/request_headers`,
    body: (n) => ({ add: { 'X-N': `${n}` } }),
  },
}

for (const [kind, { create, patch }] of Object.entries(kinds)) {
  test(`${kind}: every answer that shows it carries its ETag, which changes when it does`, async () => {
    const { uri } = await create()
    const read = await admin('GET', uri)
    assert.match(etagOf(read), /^"[\x21\x23-\x7e]+"$/)
    assert.equal(etagOf(await admin('GET', uri, undefined, { process: 1 })), etagOf(read))
    const changed = await admin('PATCH', uri, patch(7))
    assert.notEqual(etagOf(changed), etagOf(read))
    assert.equal(etagOf(await admin('GET', uri)), etagOf(changed))
    assert.equal(etagOf(await admin('PATCH', uri, {})), etagOf(changed))
  })

  test(`${kind}: PATCH and DELETE with an If-Match that is out of date get 412 and change nothing`, async () => {
    const { uri } = await create()
    const old = etagOf(await admin('GET', uri))
    const { body: current } = await admin('PATCH', uri, patch(1))
    for (const stale of [old, '"nonsense"', 'nonsense', '""', '']) {
      assertRefused(await admin('PATCH', uri, patch(2), ifMatch(stale)), 412, 'ERR_PRECONDITION_FAILED')
      assertRefused(await admin('DELETE', uri, undefined, ifMatch(stale)), 412, 'ERR_PRECONDITION_FAILED')
    }
    assert.deepEqual((await admin('GET', uri)).body, current)
  })

  test(`${kind}: PATCH and DELETE with the current ETag succeed`, async () => {
    const { uri } = await create()
    const changed = await admin('PATCH', uri, patch(1), ifMatch(etagOf(await admin('GET', uri))))
    assert.equal(changed.status, 200)
    assert.equal((await admin('DELETE', uri, undefined, ifMatch(etagOf(changed)))).status, 204)
  })
}

for (const kind of [
  'API key',
  'IP restriction',
  'TCP edge (hostports)',
  'TCP edge (module)',
  'HTTPS edge',
  'HTTPS edge route (module)',
]) {
  test(`${kind}: of two concurrent PATCHes with the same If-Match exactly one succeeds, through whichever process`, async () => {
    const rounds = kind === 'API key' || kind === 'TCP edge (module)' ? sized(40, 100) : sized(15, 40)
    const { create, patch } = kinds[kind] ?? assert.fail(kind)
    const { uri } = await create()
    let tag = etagOf(await admin('PATCH', uri, patch(0)))
    for (let round = 1; round <= rounds; round++) {
      const answers = await Promise.all(
        [0, 1].map((process) => admin('PATCH', uri, patch(2 * round + 1), { ...ifMatch(tag), process })),
      )
      assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 412], `round ${round}`)
      const winner = answers.find(({ status }) => status === 200)
      const now = await admin('GET', uri)
      assert.deepEqual(now.body, winner?.body)
      // Back to where it began, so that the next round is a change again.
      tag = etagOf(await admin('PATCH', uri, patch(0), ifMatch(etagOf(now))))
    }
  })
}

for (const [name, { create, body }] of Object.entries(modules)) {
  test(`${name}: has an ETag on PUT and GET; PUT and DELETE honor If-Match`, async () => {
    const path = await create()
    const first = await admin('PUT', path, body(0))
    assert.match(etagOf(first), /^"[\x21\x23-\x7e]+"$/)
    assert.equal(etagOf(await admin('GET', path, undefined, { process: 1 })), etagOf(first))
    const second = await admin('PUT', path, body(1), ifMatch(etagOf(first)))
    assert.equal(second.status, 200)
    assert.notEqual(etagOf(second), etagOf(first))
    assertRefused(await admin('PUT', path, body(2), ifMatch(etagOf(first))), 412, 'ERR_PRECONDITION_FAILED')
    assertRefused(await admin('DELETE', path, undefined, ifMatch(etagOf(first))), 412, 'ERR_PRECONDITION_FAILED')
    assert.deepEqual((await admin('GET', path)).body, second.body)
    assert.equal((await admin('DELETE', path, undefined, ifMatch(etagOf(second)))).status, 204)
  })

  test(`${name}: one that is not set matches no If-Match, not even *`, async () => {
    const path = await create()
    for (const tag of ['*', '"x"']) {
      assertRefused(await admin('PUT', path, body(0), ifMatch(tag)), 412, 'ERR_PRECONDITION_FAILED')
      assertRefused(await admin('DELETE', path, undefined, ifMatch(tag)), 412, 'ERR_PRECONDITION_FAILED')
    }
    assert.equal((await admin('GET', path)).status, 404)
  })

  test(`${name}: of two concurrent PUTs with the same If-Match exactly one succeeds`, async () => {
    const path = await create()
    let tag = etagOf(await admin('PUT', path, body(0)))
    for (let round = 1; round <= 40; round++) {
      const answers = await Promise.all(
        [0, 1].map((process) => admin('PUT', path, body(1), { ...ifMatch(tag), process })),
      )
      assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 412], `round ${round}`)
      tag = etagOf(await admin('PUT', path, body(0)))
    }
  })
}

test('* matches every version', async () => {
  for (const { create, patch } of Object.values(kinds)) {
    const { uri } = await create()
    assert.equal((await admin('PATCH', uri, patch(1), ifMatch('*'))).status, 200)
    assert.equal((await admin('DELETE', uri, undefined, ifMatch('*'))).status, 204)
  }
})

test('one of several tags is enough, in one header or in several; blanks do not matter', async () => {
  const { uri } = await newBackend(admin)
  for (const lines of [
    (tag: string) => `"a", ${tag}`,
    (tag: string) => `${tag},"b"`,
    (tag: string) => `"a" ,\t${tag} , "b"`,
  ]) {
    const tag = etagOf(await admin('GET', uri))
    const changed = await admin('PATCH', uri, { address: `app:${lines.length + tag.length}` }, ifMatch(lines(tag)))
    assert.equal(changed.status, 200)
  }
  assertRefused(await admin('PATCH', uri, {}, ifMatch('"a"', '"b"')), 412, 'ERR_PRECONDITION_FAILED')
})

test('a weak tag never matches: If-Match compares strongly', async () => {
  const { uri } = await newBackend(admin)
  const tag = etagOf(await admin('GET', uri))
  assert.ok(!tag.startsWith('W/'))
  for (const weak of [`W/${tag}`, `w/${tag}`]) {
    assertRefused(await admin('PATCH', uri, { address: 'app:2' }, ifMatch(weak)), 412, 'ERR_PRECONDITION_FAILED')
    assertRefused(await admin('DELETE', uri, undefined, ifMatch(weak)), 412, 'ERR_PRECONDITION_FAILED')
  }
})

test('a tag without its quotes, or another resource with the same fields, does not match', async () => {
  const [one, two] = [await newPolicy(admin), await newPolicy(admin)]
  const tag = etagOf(await admin('GET', one.uri))
  for (const wrong of [tag.slice(1, -1), etagOf(await admin('GET', two.uri))])
    assertRefused(await admin('DELETE', one.uri, undefined, ifMatch(wrong)), 412, 'ERR_PRECONDITION_FAILED')
})

test('order of checks: the fields (400), the existence (404), the precondition (412), the state (409)', async () => {
  const stale = ifMatch('"stale"')
  const edge = await newTcpEdge(admin, { ip_restriction: { ip_policy_ids: [policy.id] } })
  const taken = await newTcpEdge(admin, { hostports: [`${freshHost()}:${tcpPort}`] })
  const absent = '/edges/tcp/edgtcp_00000000000000000000000000'
  assertRefused(await admin('PATCH', absent, { nothing: 1 }, stale), 400, 'ERR_INVALID_FIELD', 'nothing')
  assertRefused(
    await admin('PATCH', absent, taken.hostports && { hostports: taken.hostports }, stale),
    404,
    'ERR_NOT_FOUND',
  )
  assertRefused(await admin('PATCH', edge.uri, { hostports: taken.hostports }, stale), 412, 'ERR_PRECONDITION_FAILED')
  assertRefused(
    await admin('PATCH', edge.uri, { hostports: taken.hostports }),
    409,
    'ERR_HOSTPORT_TAKEN',
    'hostports[0]',
  )
  assertRefused(await admin('DELETE', policy.uri, undefined, stale), 412, 'ERR_PRECONDITION_FAILED')
  assertRefused(await admin('DELETE', policy.uri), 409, 'ERR_IP_POLICY_IN_USE')
  assertRefused(await admin('PUT', `${absent}/backend`, { backend_id: backend.id }, stale), 404, 'ERR_NOT_FOUND')
})

test('order of checks: a port outside the TCP range is an invalid field, reported before existence and precondition', async () => {
  const hostports = [`${freshHost()}:80`]
  const edge = await newTcpEdge(admin)
  const absent = '/edges/tcp/edgtcp_00000000000000000000000000'
  for (const uri of [absent, edge.uri])
    assertRefused(
      await admin('PATCH', uri, { hostports }, ifMatch('"stale"')),
      400,
      'ERR_INVALID_FIELD',
      'hostports[0]',
    )
})

test('order of checks: the permission (403) before the precondition (412)', async () => {
  const stale = ifMatch('"stale"')
  const member = await newUser(plane, admin)
  const bot = await newBot(plane, admin)
  const rule = await make(admin, '/ip_policy_rules', { ip_policy_id: policy.id, action: 'allow', cidr: '192.0.2.7' })
  await make(admin, '/ip_restrictions', { type: 'agent', ip_policy_ids: [policy.id] })
  for (const [method, path, body] of [
    ['PATCH', bot.ownerUri, { name: 'x' }],
    ['DELETE', bot.ownerUri],
    ['PATCH', `/api_keys/${bot.keyId}`, { description: 'x' }],
    ['DELETE', `/api_keys/${bot.keyId}`],
    ['PATCH', rule.uri, { description: 'x' }],
    ['DELETE', rule.uri],
  ] as const)
    assertRefused(await member(method, path, body, stale), 403, 'ERR_FORBIDDEN')
})

nothingWasADefect(plane)
