// What the authority takes back: a certificate that it revoked, an order that it made invalid or does not know any more.
import assert from 'node:assert/strict'
import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto'
import { chmod, glob, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { accountKeyOf } from '../../src/acme/account_key.ts'
import { createAcmeClient } from '../../src/acme/client.ts'
import { createSignedRequests } from '../../src/acme/signed_requests.ts'
import { workOnOrder } from '../../src/acme/worker.ts'
import { many, run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { type Id, toUuid } from '../../src/kernel/ids.ts'
import type { Pebble } from '../harness/pebble.ts'
import { poll } from '../harness/poll.ts'
import { startOrdersByHand } from './by_hand.ts'
import { makeDue, manage, startAcmeInstallation, untilIssued, visit, visitAllTheTime } from './harness.ts'

const authorityOf = ({ directoryUrl, ca }: Pebble, accountKey: KeyObject) => ({
  directoryUrl,
  ca,
  accountKey,
  clock: Date.now,
  signal: new AbortController().signal,
})

test('a revoked certificate is replaced at the next check, and no request fails meanwhile', async (t) => {
  const installation = await startAcmeInstallation(t)
  const { admin: alice, pebble, edge } = installation
  const root = await pebble.rootOfIssued()
  const managed = await manage(installation, alice)
  const { issued: first } = await untilIssued(alice, managed)
  await poll(
    () => visit(installation, managed.domain, root).catch(() => undefined),
    (seen) => seen?.serial === first.serial_number,
  )
  // Anyone with the key of a certificate can revoke it. This one is on the node.
  const signed = createSignedRequests(authorityOf(pebble, await keyOnNode(edge.folder)))
  const { revokeCert } = (await signed.directoryOf()) as unknown as { revokeCert: string }
  const certificate = new X509Certificate(first.certificate_pem).raw.toString('base64url')
  await signed.post(revokeCert, { certificate, reason: 1 }, undefined)

  const visits = visitAllTheTime(installation, managed.domain, root)
  await makeDue(installation, managed)
  const { issued: next } = await untilIssued(alice, managed, first.serial_number)
  await poll(() => visits.serials.at(-1) === next.serial_number)
  await visits.stop()
  assert.equal(next.id, first.id)
  const changes = visits.serials.filter((serial, at, all) => serial !== all[at - 1])
  assert.deepEqual(changes, [first.serial_number, next.serial_number])
  // It is done with that: the new one is not revoked.
  await makeDue(installation, managed)
  await poll(
    () =>
      many(
        installation.db,
        sql`
        select from acme_orders
        where domain_id = ${toUuid(managed.id)} and next_attempt_at > now() and lease_token is null`,
      ),
    (settled) => settled.length === 1,
  )
  assert.equal((await untilIssued(alice, managed)).issued.serial_number, next.serial_number)
})

async function keyOnNode(folder: string): Promise<KeyObject> {
  const files = await Array.fromAsync(glob('haproxy/tenants/*', { cwd: folder }))
  assert.equal(files.length, 1)
  return createPrivateKey(await readFile(join(folder, files[0] ?? ''), 'utf8'))
}

/** An order that was begun and that no process holds. */
async function startHalfDone(t: Parameters<typeof startOrdersByHand>[0]) {
  const byHand = await startOrdersByHand(t)
  const { parts, folder, plane, managed, hook } = byHand
  const slow = join(folder, 'slow')
  await writeFile(slow, `#!/bin/sh\nsleep 2\nexec ${hook} "$@"\n`)
  await chmod(slow, 0o700)
  const alice = await plane.newAccount()
  const { id, domain } = await managed(alice)
  const attempt = workOnOrder({ ...parts, settings: { ...parts.settings, dnsHook: slow } })
  const url = await poll(() => orderUrlOf(byHand, id))
  await run(
    plane.db,
    sql`update acme_orders set lease_token = gen_random_uuid(), lease_until = now() where domain_id = ${toUuid(id)}`,
  )
  assert.deepEqual(await attempt, { domain, issued: false })
  assert.equal(await orderUrlOf(byHand, id), url)
  return { ...byHand, id, domain, url: url ?? '' }
}

const orderUrlOf = async ({ plane }: Pick<Awaited<ReturnType<typeof startOrdersByHand>>, 'plane'>, id: Id<'rd'>) =>
  (
    await many<{ order_url: string | null }>(
      plane.db,
      sql`select order_url from acme_orders where domain_id = ${toUuid(id)}`,
    )
  )[0]?.order_url

test('an order that the authority made invalid is given up, and the same attempt makes another', async (t) => {
  const { parts, pebble, domain, url } = await startHalfDone(t)
  const key = await accountKeyOf(parts.db, pebble.directoryUrl, parts.box, () => assert.fail('there is one'))
  const authority = authorityOf(pebble, createPrivateKey(key))
  const client = createAcmeClient(authority)
  await client.register('', true)
  const { body: order } = await client.readOrder(url)
  const signed = createSignedRequests(authority)
  const { newAccount } = await signed.directoryOf()
  const { headers } = await signed.post(newAccount, { onlyReturnExisting: true }, undefined)
  for (const authorization of order.authorizations)
    await signed.post(authorization, { status: 'deactivated' }, headers.location)
  assert.equal((await client.readOrder(url)).body.status, 'invalid')
  assert.deepEqual(await workOnOrder(parts), { domain, issued: true })
})

test('an order that the authority no longer knows is placed again', async (t) => {
  const { parts, pebble, domain } = await startHalfDone(t)
  await pebble.stop()
  await pebble.start()
  assert.deepEqual(await workOnOrder(parts), { domain, issued: true })
})
