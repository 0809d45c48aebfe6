// Rows 1 and 5 of the security review, on the API: no account can have what overlaps another's.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { many, run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { snapshot } from '../../src/db/transaction.ts'
import { newUuid, toUuid } from '../../src/kernel/ids.ts'
import type { Answer, Client } from '../harness/client.ts'
import { startControlPlane } from '../harness/control_plane.ts'
import { nothingWasADefect } from '../harness/defects.ts'
import { assertRefused, freshHost, newHttpsEdge, newTcpEdge } from '../harness/fixtures.ts'
import { overlapsIn } from './overlaps.ts'

const plane = await startControlPlane({ after }, { processes: 2 })
const [alice, mallory] = [await plane.newAccount(), await plane.newAccount()]

const https = (as: Client, ...names: string[]) =>
  as('POST', '/edges/https', { hostports: names.map((name) => `${name}:443`) })
const tcp = (as: Client, ...hostports: string[]) => as('POST', '/edges/tcp', { hostports })
const freePort = (() => {
  let next = 20_000
  return () => next++
})()
const taken = (answer: Answer, field = 'hostports[0]') => assertRefused(answer, 409, 'ERR_HOSTPORT_TAKEN', field)

test('row 1: a TCP port belongs to one account, under any name or address', async () => {
  const [port, other] = [freePort(), freePort()]
  const edge = await newTcpEdge(alice, { hostports: [`tcp.example:${port}`] })
  const own = await newTcpEdge(mallory, { hostports: [`tcp.example:${other}`] })
  for (const host of ['127.0.0.1', '[::1]', '0.0.0.0', 'other.example', 'tcp.example']) {
    taken(await tcp(mallory, `${host}:${port}`))
    taken(await tcp(mallory, `${host}:${other}`.replace(/^tcp\./, 'b.'), `${host}:${port}`), 'hostports[1]')
    taken(await mallory('PATCH', own.uri, { hostports: [`${host}:${port}`] }))
  }
  assert.deepEqual((await mallory('GET', own.uri)).body, own)
  assert.equal((await tcp(alice, `second.example:${port}`, `127.0.0.1:${port}`)).status, 201, "one account's own")
  assert.equal((await alice('DELETE', edge.uri)).status, 204)
  taken(await tcp(mallory, `x.example:${port}`))
})

test('row 1: a port is free once its last hostport is deleted or replaced', async () => {
  const port = freePort()
  const [first, second] = [
    await newTcpEdge(alice, { hostports: [`a.example:${port}`] }),
    await newTcpEdge(alice, { hostports: [`b.example:${port}`] }),
  ]
  await alice('DELETE', first.uri)
  taken(await tcp(mallory, `c.example:${port}`))
  await alice('PATCH', second.uri, { hostports: [] })
  assert.equal((await tcp(mallory, `c.example:${port}`)).status, 201)
  taken(await alice('PATCH', second.uri, { hostports: second.hostports }))
})

/** What one account has, what another asks for, and whether they overlap. */
const cases: [held: string, asked: string, overlap: boolean][] = [
  ['*.corp', 'admin.corp', true],
  ['*.corp', 'corp', true],
  ['*.corp', '*.corp', true],
  ['*.corp', '*.admin.corp', true],
  ['*.corp', 'a.b.c.corp', true],
  ['corp', 'corp', true],
  ['corp', 'admin.corp', false],
  ['corp', 'corp.other', false],
  ['a.corp', 'b.corp', false],
  ['*.a.corp', 'b.corp', false],
  ['*.a.corp', 'corp', false],
  ['*.a.corp', '*.b.corp', false],
  ['*.a.corp', 'xa.corp', false],
  ['*.a.corp', 'a-x.corp', false],
  ['*.a.corp', 'ax.corp', false],
]
for (const [held, asked, overlap] of cases) {
  test(`row 5: ${asked}.example beside ${held}.example of another account: ${overlap ? '409' : 'allowed'}, in either order`, async () => {
    for (const [first, second] of [
      [held, asked],
      [asked, held],
    ]) {
      const domain = freshHost()
      const edge = await https(alice, `${first}.${domain}`)
      assert.equal(edge.status, 201, edge.text)
      const answer = await https(mallory, `x.${freshHost()}`, `${second?.toUpperCase()}.${domain}`)
      if (overlap) taken(answer, 'hostports[1]')
      else assert.equal(answer.status, 201, answer.text)
      if (overlap && first !== second)
        assert.equal((await https(alice, `${second}.${domain}`)).status, 201, "one's own")
    }
  })
}

test("row 5: another account's names are free once it drops them", async () => {
  const domain = freshHost()
  const { body: edge } = await https(alice, `*.${domain}`, domain)
  taken(await https(mallory, `admin.${domain}`))
  await alice('PATCH', edge.uri, { hostports: [`${domain}:443`] })
  assert.equal((await https(mallory, `admin.${domain}`)).status, 201)
  taken(await alice('PATCH', edge.uri, { hostports: edge.hostports }))
})

test('a 409 reveals neither the owner of a name nor the name it overlaps', async () => {
  const domain = freshHost()
  const { body: edge } = await https(alice, `*.${domain}`, `admin.${domain}`, `secret.${domain}`)
  const answers = await Promise.all(
    ['admin', 'other', 'secret', 'x.secret'].map((name) => https(mallory, `${name}.${domain}`)),
  )
  const texts = answers.map(({ body }) => body.msg.replace(/^[^ ]+/, ''))
  assert.equal(new Set(texts).size, 1, texts.join('\n'))
  for (const { text } of answers)
    for (const secret of [edge.id, alice.accountId, alice.adminId, '*'])
      assert.ok(!text.includes(secret), `${text} tells ${secret}`)
  const own = await https(alice, `admin.${domain}`)
  assert.ok(own.body.msg.includes(edge.id), 'for its own account it says which edge')
})

test('row 5: a wildcard directly under a public suffix is refused; one under a domain below it is not', async () => {
  for (const suffix of ['com', 'co.uk', 'github.io', 'example', 'corp', 'x.kawasaki.jp', 'kawasaki.jp', 'xn--p1ai']) {
    assertRefused(await https(alice, freshHost(), `*.${suffix}`), 400, 'ERR_INVALID_FIELD', 'hostports[1]')
    const edge = await newHttpsEdge(alice)
    const patch = await alice('PATCH', edge.uri, { hostports: [`*.${suffix.toUpperCase()}:443`] })
    assertRefused(patch, 400, 'ERR_INVALID_FIELD', 'hostports[0]')
    // Names directly under kawasaki.jp are public suffixes too.
    if (suffix === 'kawasaki.jp') continue
    const own = await https(alice, `*.gatehouse-test.${suffix}`)
    assert.equal(own.status, 201, own.text)
    await alice('DELETE', own.body.uri)
  }
})

test('the operator can allow wildcards under a public suffix that is theirs', async () => {
  const { origin } = await plane.startProcess({ GATEHOUSE_WILDCARD_SUFFIXES: 'github.io' })
  const process = plane.processes.findIndex((one) => one.origin === origin)
  const as = plane.clientFor(alice.token)
  const statuses = ['*.github.io:443', '*.gitlab.io:443'].map(
    async (hostport) => (await as('POST', '/edges/https', { hostports: [hostport] }, { process })).status,
  )
  assert.deepEqual(await Promise.all(statuses), [201, 400])
})

test('the database refuses overlaps from any writer, including a transaction that could not see the other', async () => {
  const [port, domain] = [freePort(), freshHost()]
  await newTcpEdge(alice, { hostports: [`tcp.example:${port}`] })
  await newHttpsEdge(alice, { hostports: [`*.${domain}:443`] })
  const account = toUuid(mallory.accountId as `ac_${string}`)
  const edge = newUuid()
  await run(plane.db, sql`insert into edges (account_id, id, kind) values (${account}, ${edge}, 'tcp')`)
  const insert = (hostport: string) =>
    sql`insert into hostports (hostport, account_id, edge_id, position) values (${hostport}, ${account}, ${edge}, 0)`
  for (const hostport of [`x.example:${port}`, `a.${domain}:443`, `${domain}:443`])
    await assert.rejects(run(plane.db, insert(hostport)), { code: '23P01', constraint: 'hostports_one_owner' })
  await run(plane.db, insert(`free.${freshHost()}:443`))
  const move = sql`update hostports set hostport = ${`b.${domain}:443`} where account_id = ${account} and edge_id = ${edge}`
  await assert.rejects(run(plane.db, move), { constraint: 'hostports_one_owner' })
  await assert.rejects(run(plane.db, insert('*.com:443')), { constraint: 'hostports_wildcard_labels' })
  await assert.rejects(
    snapshot(plane.db, async (tx) => {
      await run(tx, sql`set transaction read write`)
      await run(tx, insert(`late.${freshHost()}:443`))
    }),
    /read committed/,
  )
})

/** Everything in the installation, against a check that shares no code with the database's. */
async function assertNoOverlap(): Promise<void> {
  const rows = await many<{ hostport: string; account_id: string }>(
    plane.db,
    sql`select hostport, account_id from hostports`,
  )
  assert.deepEqual(overlapsIn(rows), [])
}

const statusesOf = (answers: Answer[]) => [...new Set(answers.map(({ status }) => status))].sort()

test('row 1: when two accounts request one port at once, under many names, exactly one gets it', async () => {
  for (let round = 0; round < 15; round++) {
    const port = freePort()
    const answers = await Promise.all(
      Array.from({ length: 8 }, async (_, index) => {
        const as = index % 2 ? 'alice' : 'mallory'
        const client = { alice, mallory }[as]
        const sent = { hostports: [`n-${index}.example:${port}`] }
        return { as, answer: await client('POST', '/edges/tcp', sent, { process: (index >> 1) % 2 }) } as const
      }),
    )
    assert.deepEqual(statusesOf(answers.map(({ answer }) => answer)), [201, 409])
    const winners = new Set(answers.filter(({ answer }) => answer.status === 201).map(({ as }) => as))
    assert.equal(winners.size, 1, 'both accounts have the port')
  }
  await assertNoOverlap()
})

test('row 5: when two accounts request overlapping names at once, exactly one gets any', async () => {
  for (let round = 0; round < 15; round++) {
    const domain = freshHost()
    // Any two names of different accounts overlap, whichever comes first.
    const wanted = { alice: [`*.${domain}`, `*.a.${domain}`], mallory: [`*.${domain}`, `a.a.${domain}`] }
    const answers = await Promise.all(
      Array.from({ length: 8 }, async (_, index) => {
        const as = index % 2 ? 'alice' : 'mallory'
        const name = wanted[as][(index >> 1) % 2] ?? ''
        const sent = { hostports: [`x-${index}.${freshHost()}:443`, `${name}:443`] }
        return {
          as,
          answer: await { alice, mallory }[as]('POST', '/edges/https', sent, { process: (index >> 2) % 2 }),
        }
      }),
    )
    const statuses = statusesOf(answers.map(({ answer }) => answer))
    assert.deepEqual(statuses, [201, 409], answers.map(({ answer }) => answer.text).join('\n'))
    const winners = new Set(answers.filter(({ answer }) => answer.status === 201).map(({ as }) => as))
    assert.equal(winners.size, 1, 'both accounts have names under the domain')
  }
  await assertNoOverlap()
})

test('lists of names in opposite orders, wildcards included, do not deadlock', async () => {
  for (let round = 0; round < 5; round++) {
    const domains = Array.from({ length: 30 }, () => freshHost())
    const names = domains.flatMap((domain, index) => [index % 2 ? `*.${domain}` : `a.${domain}`])
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, index) =>
        https(index % 2 ? alice : mallory, ...(index % 4 < 2 ? names : names.toReversed())),
      ),
    )
    assert.deepEqual(answers.map(({ status }) => status).sort(), [201, ...Array(7).fill(409)])
  }
})

test('concurrent claims and releases never leave two owners or none', async () => {
  const [port, domain] = [freePort(), freshHost()]
  const bodies = [
    ['/edges/tcp', () => [`${freshHost()}:${port}`]],
    ['/edges/https', () => [`*.${domain}:443`]],
    ['/edges/https', () => [`a.${domain}:443`, `${domain}:443`]],
  ] as const
  let created = 0
  const churn = async (as: Client, process: number) => {
    for (let round = 0; round < 25; round++) {
      const [path, hostports] = bodies[round % bodies.length] ?? assert.fail()
      const answer = await as('POST', path, { hostports: hostports() }, { process })
      assert.ok([201, 409].includes(answer.status), answer.text)
      if (answer.status !== 201) continue
      created++
      const gone =
        round % 2
          ? await as('DELETE', answer.body.uri, undefined, { process })
          : await as('PATCH', answer.body.uri, { hostports: [] }, { process })
      assert.ok([200, 204].includes(gone.status), gone.text)
    }
  }
  let over = false
  const watch = (async () => {
    while (!over) await assertNoOverlap()
  })()
  await Promise.all([alice, mallory, alice, mallory].map((as, index) => churn(as, index % 2)))
  over = true
  await watch
  assert.ok(created > 20, `${created} created`)
  for (const [path, hostports] of bodies)
    assert.equal((await mallory('POST', path, { hostports: hostports() })).status, 201, 'something still holds it')
})

test('no account can take the whole port range, however many requests run at once', async () => {
  const { origin } = await plane.startProcess({ GATEHOUSE_TCP_PORTS_PER_ACCOUNT: '5' })
  const process = plane.processes.findIndex((one) => one.origin === origin)
  const newcomer = await plane.newAccount()
  const ports = Array.from({ length: 8 }, freePort)
  const create = (...of: number[]) =>
    newcomer('POST', '/edges/tcp', { hostports: of.map((port) => `${freshHost()}:${port}`) }, { process })
  const answers = await Promise.all(ports.map((port) => create(port)))
  assert.deepEqual(answers.map(({ status }) => status).sort(), [201, 201, 201, 201, 201, 409, 409, 409])
  const refused = answers.find(({ status }) => status === 409) ?? assert.fail()
  assertRefused(refused, 409, 'ERR_QUOTA')
  const own = answers.flatMap(({ status, body }) => (status === 201 ? [body] : []))
  const [port = 0] = own.map(({ hostports }) => Number(hostports[0].split(':')[1]))
  assert.equal((await create(port, port)).status, 201, 'another hostport on a port that it has')
  const freed = await newcomer('PATCH', own[1].uri, { hostports: [] }, { process })
  assert.equal(freed.status, 200)
  assert.equal((await create(freePort())).status, 201)
})

nothingWasADefect(plane)
