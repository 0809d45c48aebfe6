// From an invitation to traffic, and back: nodes join with a token, once, and are revoked.
import assert from 'node:assert/strict'
import { mkdtemp, readdir, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { startHttpUpstream } from '../agent/http_harness.ts'
import { gatehouse } from '../harness/command.ts'
import { make, newHttpsEdge } from '../harness/fixtures.ts'
import { loadScaledTimeout } from '../harness/load_scaled_timeout.ts'
import { holdsFor, poll } from '../harness/poll.ts'
import { statusOf } from '../upgrade/installation.ts'
import { newKeys, startJoining } from './joining.ts'

const file = { after: (cleanUp: () => Promise<void>) => after(cleanUp) }
const fleet = await startJoining(file)
await fleet.untilReady()
const { admin, nodes, invite, revoke, events, ask, joinMachine, startJoined } = fleet

test('a machine joins with one command and serves; revoked, it is cut off within a second and stays so', async (t) => {
  const web = await startHttpUpstream(t, 'web')
  const backend = { backend_id: (await make(admin, '/backends/static', { address: `127.0.0.1:${web.port}` })).id }
  const edge = await newHttpsEdge(admin, { hostports: ['a.example:443'] })
  await make(admin, `${edge.uri}/routes`, { match_type: 'path_prefix', match: '/', backend })

  const token = await nodes('invite', '--name', 'edge-7')
  const machine = await joinMachine(token, 'anything')
  assert.equal(machine.code, 0, machine.stderr)
  assert.match(machine.stdout, /joined as edge-7/)
  assert.doesNotMatch(machine.stdout, /needs a password/)
  for (const secret of ['nats.creds', 'node.key'])
    assert.equal((await stat(join(machine.folder, secret))).mode & 0o777, 0o600)
  assert.deepEqual((await readdir(machine.folder)).includes('join.key'), false)
  const node = await startJoined(machine, { GATEHOUSE_EDGE_NODE: 'edge-7' })
  await poll(
    () => statusOf(node.httpsPort, 'a.example', '127.0.0.1', '/'),
    (status) => status === 200,
  )
  const { body } = await admin('GET', '/edge_nodes')
  const [shown] = body.edge_nodes
  assert.deepEqual([shown.name, shown.certificate_key.accepted], ['edge-7', true])

  // A first attempt to connect may have failed on a busy machine.
  const before = node.log.length
  assert.match(await nodes('revoke', 'edge-7'), /NATS has closed its connection/)
  const lost = await poll(() => node.log.slice(before).find(({ msg }) => /cannot reach NATS/.test(`${msg}`)))
  const { operation, at } = (await events()).at(-1) ?? {}
  assert.equal(operation, 'revoked')
  const closedAfterMs = Date.parse(`${lost?.time}`) - Date.parse(`${at}`)
  t.diagnostic(`the node lost its connection ${closedAfterMs} ms after it was revoked`)
  assert.ok(closedAfterMs < loadScaledTimeout(1_000), `${closedAfterMs} ms`)
  await fleet.nats.restart()
  await fleet.untilReady()
  await holdsFor(3_000, async () => (await fetch(`${node.statusUrl}/status`)).ok)
  assert.ok(!node.log.slice(node.log.indexOf(lost ?? {})).some(({ msg }) => msg === 'connected to NATS'))
  // It goes on serving what it has: taking it out of service is another matter.
  assert.equal(await statusOf(node.httpsPort, 'a.example', '127.0.0.1', '/'), 200)
  const keys = await gatehouse(['edge-keys', 'list'], fleet.env)
  assert.doesNotMatch(keys.stdout, /edge-7.*accepted/)
})

test('an expired, an invented and a malformed token are refused alike, and a name that is taken is not', async () => {
  const expired = await invite()
  await run(fleet.db, sql`update join_tokens set expires_at = now() where used_by is null`)
  const invented = `gatehouse_join_${'A'.repeat(43)}`
  const messages = await Promise.all(
    [expired, invented, 'x'].map(async (token) => {
      const answer = await ask(token)
      const { error_code, msg } = (await answer.json()) as { error_code: string; msg: string }
      return [answer.status, error_code, msg]
    }),
  )
  assert.deepEqual(messages, Array(3).fill(messages[0]))
  assert.deepEqual(messages[0]?.slice(0, 2), [401, 'ERR_UNAUTHENTICATED'])
  const refusals = (await events()).filter(({ operation }) => operation === 'join_refused')
  assert.deepEqual(refusals.map(({ detail }) => detail).sort(), ['join token: expired', 'join token: unknown'])

  const [first, second] = [await invite('edge-8'), await invite()]
  assert.equal((await ask(first)).status, 200)
  const taken = await fetch(`${fleet.origin}/edge_nodes/join`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ token: second, name: 'edge-8', ...newKeys() }),
  })
  assert.equal(taken.status, 400)
  assert.equal((await ask(second)).status, 200)
  // Before they have reported: limits of the cell are divided by two from now on.
  const counted = async () => (await admin('GET', '/cells')).body.cells[0].counted_nodes
  assert.equal(await counted(), 2)
  await revoke('edge-x')
  await revoke('edge-8')
  await poll(counted, (nodes) => nodes === 1)
})

test('revoking a node that was invited and has not joined makes its token worthless, and no other', async () => {
  const [withdrawn, other] = [await invite('edge-6'), await invite()]
  assert.match(await nodes('revoke', 'edge-6'), /^edge-6 had not joined/)
  assert.equal((await ask(withdrawn)).status, 401)
  assert.equal((await events()).findLast(({ node }) => node === 'edge-6')?.detail, 'an unused join token')
  assert.equal((await ask(other)).status, 200)
  const again = await gatehouse(['nodes', 'revoke', 'edge-6'], fleet.env)
  assert.deepEqual([again.code, /no node with the name edge-6/.test(again.stderr)], [1, true])
  const keyless = await gatehouse(['nodes', 'invite'], { ...fleet.env, GATEHOUSE_SECRETS_KEY_FILE: '' })
  assert.equal(keyless.code, 2)
  assert.match(keyless.stderr, /^gatehouse: a secret in the database cannot be read: .*KEY_FILE is not set\n$/)
  await revoke('edge-x')
})

test('a token lets one of twenty nodes in that use it at once, and the same node may ask again', async () => {
  const token = await invite()
  const keys = Array.from({ length: 20 }, (_, index) => ({ ...newKeys(), name: `edge-${index}` }))
  const answers = await Promise.all(keys.map((each) => ask(token, each)))
  // 429: so many wrong tokens from one address.
  for (const { status } of answers) assert.ok([200, 401, 429].includes(status), `${status}`)
  const winners = answers.flatMap(({ status }, index) => (status === 200 ? [index] : []))
  assert.equal(winners.length, 1)
  const winner = keys[winners[0] ?? 0]
  assert.equal((await ask(token, winner)).status, 200)
  const refused = (await events()).findLast(({ operation }) => operation === 'join_refused')
  assert.deepEqual([refused?.detail, refused?.source_ip], ['join token: used', '127.0.0.1'])
  await revoke(`${winner?.name}`)
})

test('while NATS is down a join is refused with 503, and the token stays valid', async () => {
  const token = await invite()
  await fleet.nats.stop('SIGKILL')
  assert.equal((await ask(token)).status, 503)
  await fleet.nats.restart()
  await poll(
    async () => (await ask(token)).status,
    (status) => status === 200,
  )
  assert.match(await nodes('list'), /"name":"edge-x"/)
  await revoke('edge-x')
})

test('a revocation that NATS does not have shows in the metrics until NATS is back', async () => {
  const outdated = async () =>
    /^gatehouse_nats_accounts_outdated (\d)$/m.exec(await (await fetch(`${fleet.origin}/metrics`)).text())?.[1]
  assert.equal((await ask(await invite())).status, 200)
  await poll(outdated, (value) => value === '0')
  await fleet.nats.stop('SIGKILL')
  await revoke('edge-x')
  await poll(outdated, (value) => value === '1')
  await fleet.nats.restart()
  await poll(outdated, (value) => value === '0')
})

test('without a token, requests are refused, and guesses leave one event an hour', async () => {
  const before = (await events()).length
  for (const body of ['{}', '[]', 'null', '{"token":1}', JSON.stringify({ token: 'x'.repeat(5_000) })]) {
    const answer = await fetch(`${fleet.origin}/edge_nodes/join`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body,
    })
    assert.ok(answer.status === 400 || answer.status === 413, `${answer.status} for ${body.slice(0, 50)}`)
  }
  // The first was recorded above.
  for (let guess = 0; guess < 5; guess++) await ask(`gatehouse_join_${'B'.repeat(43)}`)
  assert.equal((await events()).length, before)
})

test('unattended: the token is in a file, a second start needs none, and no token is sent in clear to another machine', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-joined-'))
  const file = join(folder, 'token')
  await writeFile(file, `${await invite('edge-9')}\n`)
  const start = (url: string, env: Record<string, string>) =>
    gatehouse(['edge', 'join', url, '--if-needed', '--settings', join(folder, 'joined.env')], {
      GATEHOUSE_EDGE_FOLDER: folder,
      ...env,
    })
  const inClear = await start('http://control.example', { GATEHOUSE_JOIN_TOKEN_FILE: file })
  assert.deepEqual([inClear.code, /must begin with https/.test(inClear.stderr)], [2, true], inClear.stderr)
  const without = await start(fleet.origin, {})
  assert.deepEqual([without.code, /--token TOKEN is required/.test(without.stderr)], [2, true], without.stderr)
  const first = await start(fleet.origin, { GATEHOUSE_JOIN_TOKEN_FILE: file })
  assert.equal(first.code, 0, first.stderr)
  const second = await start(fleet.origin, {})
  assert.deepEqual([second.code, second.stdout.trim()], [0, 'this machine has joined already'])
  await revoke('edge-9')
})

// Last: it uses up what this address may ask for.
test('a node that joins from a crowded address waits for its turn', async () => {
  const guess = () => ask(`gatehouse_join_${'C'.repeat(43)}`)
  const statuses = await Promise.all(Array.from({ length: 310 }, async () => (await guess()).status))
  assert.ok(statuses.includes(429))
  const machine = await joinMachine(await invite('edge-late'))
  assert.equal(machine.code, 0, machine.stderr)
  await revoke('edge-late')
})
