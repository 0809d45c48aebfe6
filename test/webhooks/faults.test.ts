// Webhooks over TLS, and while the database goes away or the sending process is killed: at least once, in order.
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { asAppRole } from '../../dev/app_role.ts'
import { newCertificate } from '../harness/certificates.ts'
import { type Account, type ControlPlane, newDatabase, startControlPlane, stop } from '../harness/control_plane.ts'
import { holdsFor, pause, poll } from '../harness/poll.ts'
import { startTcpProxy } from '../harness/tcp_proxy.ts'
import { testRun } from '../harness/test_run.ts'
import { accountUuid, addEvents, deliveriesOf, newDestination, type Receiver } from './destinations.ts'
import { webhookEnv } from './environment.ts'
import { startReceiver } from './receiver.ts'

const authority = newCertificate(['Test authority'], { isAuthority: true })
const authorityFile = join(testRun.folder, `webhook-authority-${process.pid}.pem`)
writeFileSync(authorityFile, authority.certificate_pem)
const tlsEnv = { ...webhookEnv, NODE_EXTRA_CA_CERTS: authorityFile }
const host = 'hooks.localhost'
const good = { host, certificate: newCertificate([host], { issuer: authority }) }

/** Events of a few resources, in turn. Resolves to the ids of each resource in their order. */
async function addRounds(plane: ControlPlane, admin: Account, rounds: number): Promise<Map<string, string[]>> {
  const expected = new Map<string, string[]>([
    ['a', []],
    ['b', []],
    ['c', []],
  ])
  for (let round = 0; round < rounds; round++)
    for (const [resource, ids] of expected) ids.push(...(await addEvents(plane, admin, [resource])))
  return expected
}

/** All of them have arrived, and the first arrivals of each resource are in order. */
async function assertAllInOrder({ received }: Receiver, expected: Map<string, string[]>): Promise<void> {
  const firstArrivals = (resource: string) => [
    ...new Set(received.filter((event) => event.resource === resource).map(({ id }) => id)),
  ]
  for (const [resource, ids] of expected) {
    await poll(
      () => firstArrivals(resource).length,
      (count) => count >= ids.length,
      { withinSeconds: 120 },
    )
    assert.deepEqual(firstArrivals(resource), ids, `the order of ${resource}`)
  }
}

test('over TLS, events go only to a receiver whose certificate is trusted and has its name', async (t) => {
  const plane = await startControlPlane(t, { env: tlsEnv })
  const admin = await plane.newAccount()
  const receiver = await startReceiver(t, undefined, good)
  await newDestination(admin, receiver, { operations: ['x.*'] })
  await assertAllInOrder(receiver, await addRounds(plane, admin, 5))
  assert.match(receiver.url(), /^https:/)

  const faults = {
    'another name': [{ host, certificate: newCertificate(['other.localhost'], { issuer: authority }) }, /TLS_CERT_ALT/],
    'another authority': [{ host, certificate: newCertificate([host]) }, /SELF_SIGNED/],
    'an expired certificate': [
      { host, certificate: newCertificate([host], { issuer: authority, days: -1 }) },
      /EXPIRED/,
    ],
  } as const
  for (const [what, [tls, told]] of Object.entries(faults)) {
    const wrong = await startReceiver(t, undefined, tls)
    const destination = await newDestination(admin, wrong, { operations: ['y.*'] })
    await addEvents(plane, admin, [what], 'y.create')
    const [delivery] = await poll(
      () => deliveriesOf(admin, destination.id),
      ([each]) => each?.attempts > 0,
    )
    assert.match(delivery.last_error, told, what)
    assert.match(delivery.last_error, /^the certificate is not accepted: /)
    assert.equal(wrong.state.attempts, 0, `${what}: nothing reaches the receiver`)
    await admin('DELETE', destination.uri)
  }
})

test('while the database is away, what was being sent is sent again after it is back, in order', async (t) => {
  const databaseUrl = await newDatabase()
  const proxy = await startTcpProxy(t, asAppRole(databaseUrl))
  const plane = await startControlPlane(t, { databaseUrl, env: { ...tlsEnv, GATEHOUSE_DATABASE_URL: proxy.url } })
  const admin = await plane.newAccount()
  let [gate, waiting] = [Promise.resolve(), 0]
  const answer = async () => {
    waiting++
    await gate
    waiting--
    return { status: 204, delayMs: 20 }
  }
  const receiver = await startReceiver(t, answer, good)
  await newDestination(admin, receiver, { operations: ['x.*'] })
  const expected = await addRounds(plane, admin, 12)
  for (const hasArrived of [4, 15]) {
    await poll(() => receiver.received.length >= hasArrived)
    const outage = Promise.withResolvers<void>()
    gate = outage.promise
    await poll(() => waiting > 0)
    await proxy.cut()
    // Answers come while they cannot be noted.
    outage.resolve()
    await pause(700)
    await proxy.heal()
    // A lease that could not be given back ends by itself, in a minute.
    await plane.db.query({ text: 'update webhook_progress set leased_until = now()' })
  }
  await assertAllInOrder(receiver, expected)
  const repeated = receiver.received.length - 36
  t.diagnostic(`36 events, ${repeated} arrived again`)
  assert.ok(repeated > 0, 'an outage hit deliveries whose answer could not be noted')
})

test('a killed process loses nothing: another one continues, in order, when its lease has ended', async (t) => {
  const plane = await startControlPlane(t, { env: tlsEnv })
  const admin = await plane.newAccount()
  const receiver = await startReceiver(t, () => ({ status: 204, delayMs: 150 }), good)
  await newDestination(admin, receiver, { operations: ['x.*'] })
  const expected = await addRounds(plane, admin, 10)
  await poll(() => receiver.received.length >= 6)
  const [first] = plane.processes.splice(0)
  assert.ok(first)
  await stop(first.child, 'SIGKILL')
  await plane.startProcess()
  const atKill = receiver.state.attempts
  const { rows } = await plane.db.query({
    text: 'select leased_until > now() as is_leased from webhook_progress where account_id = $1',
    values: [accountUuid(admin)],
  })
  assert.deepEqual(rows, [{ is_leased: true }])
  await holdsFor(1_500, () => receiver.state.attempts <= atKill)
  // The minute of the lease is over.
  await plane.db.query({ text: 'update webhook_progress set leased_until = now()' })
  await assertAllInOrder(receiver, expected)
})
