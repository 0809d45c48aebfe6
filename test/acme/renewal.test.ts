// Renewal with two processes of the control plane that race, and an authority that goes away.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { many, one, run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { toUuid } from '../../src/kernel/ids.ts'
import { stop } from '../harness/control_plane.ts'
import { poll } from '../harness/poll.ts'
import { makeDue, manage, read, startAcmeInstallation, untilIssued, visit, visitAllTheTime } from './harness.ts'

const installation = await startAcmeInstallation({ after })
const { admin: alice, db, pebble, challenges } = installation
const second = await installation.startProcess()
const root = await pebble.rootOfIssued()

const issues = async (id: string) =>
  (
    await many<{ id: string }>(
      db,
      sql`select id from audit_events where resource_id = ${id} and operation = 'server.acme.issue'`,
    )
  ).length
const now = () => new Date()

test('a renewal that the authority suggests replaces the certificate once, and no request fails meanwhile', async () => {
  const managed = await manage(installation, alice)
  const { issued: first } = await untilIssued(alice, managed)
  await poll(
    () => visit(installation, managed.domain, root).catch(() => undefined),
    (seen) => seen?.serial === first.serial_number,
  )
  const visits = visitAllTheTime(installation, managed.domain, root)
  await pebble.suggestRenewal(first.certificate_pem, { start: new Date(Date.now() - 60_000), end: now() })
  await makeDue(installation, managed)
  const { issued: next } = await untilIssued(alice, managed, first.serial_number)
  await poll(() => visits.serials.at(-1) === next.serial_number)
  await visits.stop()
  assert.equal(next.id, first.id)
  assert.equal(await issues(managed.id), 2, 'only one of two processes renewed it')
  // The old one until the new one, and not once the old one after it.
  const changes = visits.serials.filter((serial, at, all) => serial !== all[at - 1])
  assert.deepEqual(changes, [first.serial_number, next.serial_number])
})

test('without a suggestion it is renewed at two thirds of its lifetime, not before', async () => {
  const managed = await manage(installation, alice)
  const { issued, certificate_management_status } = await untilIssued(alice, managed)
  const [from, to] = [Date.parse(issued.not_before), Date.parse(issued.not_after)]
  const renewsAt = Date.parse(certificate_management_status.renews_at)
  assert.ok(renewsAt > from + (to - from) / 2 && renewsAt < to, certificate_management_status.renews_at)
  await makeDue(installation, managed)
  await poll(async () => {
    const { due } = await one<{ due: boolean }>(
      db,
      sql`select next_attempt_at < now() or lease_token is not null as due from acme_orders where domain_id = ${toUuid(managed.id)}`,
    )
    return !due
  })
  assert.equal(await issues(managed.id), 1)
})

test('many orders at once through two processes: one certificate each', async () => {
  const all = await Promise.all(Array.from({ length: 4 }, () => manage(installation, alice)))
  for (const managed of all) await untilIssued(alice, managed)
  for (const { id } of all) assert.equal(await issues(id), 1)
  const { count } = await one<{ count: number }>(db, sql`select count(*) from acme_accounts`)
  assert.equal(count, 1)
})

test('an order goes on when a process is killed in the middle of it, and ends with one certificate', async () => {
  const managed = await manage(installation, alice, (domain) => [domain], {})
  // The first attempt is held up at the authority: nothing answers at that address.
  await challenges.setAddress(managed.domain, '127.0.0.77')
  const third = await installation.startProcess()
  await stop(second.child)
  await alice('PATCH', managed.uri, { certificate_management_policy: {} })
  const order = await poll(
    async () =>
      (
        await many<{ order_url: string | null; lease_token: string | null }>(
          db,
          sql`select order_url, lease_token from acme_orders where domain_id = ${toUuid(managed.id)}`,
        )
      )[0],
    (row) => row?.order_url != null,
  )
  assert.ok(order)
  await stop(third.child, 'SIGKILL')
  await challenges.clearAddress(managed.domain)
  // As if the lease of the killed process had ended.
  await run(
    db,
    sql`update acme_orders set lease_until = now() where lease_until is not null and domain_id = ${toUuid(managed.id)}`,
  )
  await makeDue(installation, managed)
  await poll(
    async () => {
      await makeDue(installation, managed)
      return (await read(alice, managed.uri)).certificate
    },
    Boolean,
    { everyMs: 3_000 },
  )
  assert.equal(await issues(managed.id), 1)
})

test('when the domain is lost or deleted, nothing more is ordered and no challenge is left behind', async () => {
  const managed = await manage(installation, alice)
  const { issued } = await untilIssued(alice, managed)
  await run(db, sql`update reserved_domains set status = 'lapsed' where id = ${toUuid(managed.id)}`)
  await pebble.suggestRenewal(issued.certificate_pem, { start: new Date(Date.now() - 60_000), end: now() })
  await makeDue(installation, managed)
  await poll(
    async () => (await read(alice, managed.uri)).certificate_management_status.provisioning_job,
    (job) => job?.error_code === 'unverified',
  )
  assert.equal(await issues(managed.id), 1)
  await alice('DELETE', managed.edgeUri)
  assert.equal((await alice('DELETE', managed.uri)).status, 204)
  const left = await many(
    db,
    sql`
    select domain_id from acme_orders where domain_id = ${toUuid(managed.id)}
    union all select domain_id from acme_challenges where domain_id = ${toUuid(managed.id)}`,
  )
  assert.deepEqual(left, [])
})
