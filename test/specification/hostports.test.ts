import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { startControlPlane } from '../harness/control_plane.ts'
import { nothingWasADefect } from '../harness/defects.ts'
import { assertRefused, freshHost, newHttpsEdge, newTcpEdge } from '../harness/fixtures.ts'
import { randomBelow } from '../harness/random.ts'

const plane = await startControlPlane({ after })
const [admin, stranger] = [await plane.newAccount(), await plane.newAccount()]

const kinds = [
  // A port belongs to one account, so that each account needs its own.
  { path: '/edges/tcp', port: 20_001, fresh: () => `${freshHost()}:${20_002 + freshPorts++}` },
  { path: '/edges/https', port: 443, fresh: () => `${freshHost()}:443` },
]
let freshPorts = 0

for (const { path, port, fresh } of kinds) {
  test(`${path}: a hostport belongs to one edge in the whole installation, across accounts, kinds and spellings`, async () => {
    const host = freshHost()
    const { body: edge } = await admin('POST', path, { hostports: [`${host}:${port}`] })
    for (const client of [admin, stranger]) {
      const hostports = [fresh(), `${host.toUpperCase()}:${port}`]
      assertRefused(await client('POST', path, { hostports }), 409, 'ERR_HOSTPORT_TAKEN', 'hostports[1]')
      const { body: other } = await client('POST', path, { hostports: hostports.slice(0, 1) })
      assertRefused(await client('PATCH', other.uri, { hostports }), 409, 'ERR_HOSTPORT_TAKEN', 'hostports[1]')
      assert.deepEqual((await client('GET', other.uri)).body, other)
    }
    assert.deepEqual((await admin('PATCH', edge.uri, { hostports: edge.hostports })).body, edge)
  })

  test(`${path}: of many concurrent requests for one hostport, one gets it`, async () => {
    for (let round = 0; round < 5; round++) {
      // Many, and in opposite orders, so that each would soon hold what another waits for.
      const wanted = Array.from({ length: 60 }, () => `${freshHost()}:${port}`)
      const answers = await Promise.all(
        Array.from({ length: 6 }, (_, index) =>
          (index % 2 ? admin : stranger)('POST', path, { hostports: index % 2 ? wanted : wanted.toReversed() }),
        ),
      )
      assert.deepEqual(answers.map(({ status }) => status).sort(), [201, 409, 409, 409, 409, 409])
    }
  })

  test(`${path}: PATCH replaces all hostports, in the order sent; those left out are free, and an empty list frees all`, async () => {
    const [a, b, c] = [fresh(), fresh(), fresh()]
    const { body: edge } = await admin('POST', path, { hostports: [a, b] })
    assert.deepEqual((await admin('PATCH', edge.uri, { hostports: [c, b] })).body.hostports, [c, b])
    assert.deepEqual((await admin('PATCH', edge.uri, { hostports: [b, c] })).body.hostports, [b, c])
    assert.equal((await stranger('POST', path, { hostports: [a] })).status, 201)
    assert.deepEqual((await admin('PATCH', edge.uri, { hostports: [] })).body.hostports, [])
    assert.equal((await stranger('POST', path, { hostports: [b, c] })).status, 201)
  })

  test(`${path}: hosts are names by the rules of DNS, kept in lower case`, async () => {
    const host = freshHost()
    const long = [`${'a'.repeat(63)}.${'b'.repeat(63)}.${'c'.repeat(63)}`, '-'].join('.')
    const longest = long.slice(0, -1) + host.slice(0, 24).padEnd(253 - long.length + 1, 'x')
    assert.equal(longest.length, 253)
    for (const good of [`MiXed.${host}`, `xn--bcher-kva.${host}`, `1.${host}`, `${'l'.repeat(63)}.${host}`, longest]) {
      const { status, body } = await admin('POST', path, { hostports: [`${good}:${port}`] })
      assert.deepEqual([status, body.hostports], [201, [`${good.toLowerCase()}:${port}`]])
    }
    for (const bad of [
      '',
      '.',
      `.${host}`,
      `${host}.`,
      `a..${host}`,
      `-a.${host}`,
      `a-.${host}`,
      `a_b.${host}`,
      `bücher.${host}`,
      `\u212A.${host}`,
      `a b.${host}`,
      `${'l'.repeat(64)}.${host}`,
      `${longest}x`,
      'host.123',
      '1.2.3',
      '256.1.1.1',
      `${host}\n`,
      `user@${host}`,
      `https://${host}`,
      `${host}/`,
      '*',
      `*${host}`,
      `a.*.${host}`,
      `*.*.${host}`,
      `a*.${host}`,
      '*.',
    ]) {
      const answer = await admin('POST', path, { hostports: [`${freshHost()}:${port}`, `${bad}:${port}`] })
      assertRefused(answer, 400, 'ERR_INVALID_FIELD', 'hostports[1]')
    }
  })

  test(`${path}: two spellings of one hostport are one, and it is refused to name it twice`, async () => {
    const host = freshHost()
    const answer = await admin('POST', path, { hostports: [`${host}:${port}`, `${host.toUpperCase()}:${port}`] })
    assertRefused(answer, 400, 'ERR_INVALID_FIELD', 'hostports[1]')
  })

  test(`${path}: at most 100 hostports`, async () => {
    const hostports = Array.from({ length: 101 }, () => `${freshHost()}:${port}`)
    assertRefused(await admin('POST', path, { hostports }), 400, 'ERR_INVALID_FIELD', 'hostports')
    assert.equal((await admin('POST', path, { hostports: hostports.slice(1) })).body.hostports.length, 100)
  })

  test(`${path}: anything but host:port is refused and named`, async () => {
    const host = freshHost()
    for (const bad of [
      host,
      `${host}:`,
      `:${port}`,
      `${host}:0`,
      `${host}:00${port}`,
      `${host}:65536`,
      `${host}:+1`,
      `${host}:${port}:1`,
      `${host}: ${port}`,
      `${host}:${port} `,
      '::1',
      `[::1:${port}`,
    ])
      assertRefused(await admin('POST', path, { hostports: [bad] }), 400, 'ERR_INVALID_FIELD', 'hostports[0]')
  })
}

test('TCP hostports use the TCP port range of the installation', async () => {
  for (const port of [20_000, 29_999])
    assert.equal((await newTcpEdge(admin, { hostports: [`${freshHost()}:${port}`] })).hostports.length, 1)
  const edge = await newTcpEdge(admin)
  for (const port of [1, 80, 443, 19_999, 30_000, 65_535]) {
    const hostports = [`${freshHost()}:20000`, `${freshHost()}:${port}`]
    assertRefused(await admin('POST', '/edges/tcp', { hostports }), 400, 'ERR_INVALID_FIELD', 'hostports[1]')
    assertRefused(await admin('PATCH', edge.uri, { hostports }), 400, 'ERR_INVALID_FIELD', 'hostports[1]')
  }
})

test('the TCP port range is the one that the operator has set', async () => {
  const { origin } = await plane.startProcess({ GATEHOUSE_TCP_PORTS: '4000-4001' })
  const process = plane.processes.findIndex((one) => one.origin === origin)
  const statuses = await Promise.all(
    [3_999, 4_000, 4_001, 4_002].map(
      async (port) =>
        (
          await plane.clientFor(admin.token)(
            'POST',
            '/edges/tcp',
            { hostports: [`${freshHost()}:${port}`] },
            { process },
          )
        ).status,
    ),
  )
  assert.deepEqual(statuses, [400, 201, 201, 400])
})

test('a TCP hostport may have an address for a host, kept in its one spelling; it has no wildcard', async () => {
  const port = 21_000 + randomBelow(1_000)
  const edge = await newTcpEdge(admin, { hostports: [`192.0.2.1:${port}`, `[2001:DB8:0::1]:${port}`] })
  assert.deepEqual(edge.hostports, [`192.0.2.1:${port}`, `[2001:db8::1]:${port}`])
  for (const bad of [
    `*.${freshHost()}:${port}`,
    `192.0.2.01:${port}`,
    `192.0.2:${port}`,
    `[192.0.2.1]:${port}`,
    `[fe80::1%eth0]:${port}`,
  ])
    assertRefused(await admin('POST', '/edges/tcp', { hostports: [bad] }), 400, 'ERR_INVALID_FIELD', 'hostports[0]')
})

test('HTTPS hostports use port 443, and names: no address has a certificate of its own here', async () => {
  const hosts = [
    `${freshHost()}:8443`,
    `${freshHost()}:80`,
    `${freshHost()}:20001`,
    '192.0.2.1:443',
    '[2001:db8::1]:443',
  ]
  for (const hostport of hosts)
    assertRefused(
      await admin('POST', '/edges/https', { hostports: [hostport] }),
      400,
      'ERR_INVALID_FIELD',
      'hostports[0]',
    )
})

test('HTTPS hostports: * stands as the whole first label, and is another hostport than any name it matches', async () => {
  const host = freshHost()
  const wild = await newHttpsEdge(admin, { hostports: [`*.${host.toUpperCase()}:443`] })
  assert.deepEqual(wild.hostports, [`*.${host}:443`])
  assert.equal((await admin('POST', '/edges/https', { hostports: [`a.${host}:443`, `${host}:443`] })).status, 201)
  assertRefused(
    await stranger('POST', '/edges/https', { hostports: [`*.${host}:443`] }),
    409,
    'ERR_HOSTPORT_TAKEN',
    'hostports[0]',
  )
})

nothingWasADefect(plane)
