// Secrets of webhooks are at rest only encrypted, and events are signed with them all the same.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { toUuid } from '../../src/kernel/ids.ts'
import { allRows } from '../harness/all_rows.ts'
import { createClient } from '../harness/client.ts'
import { gatehouse } from '../harness/command.ts'
import { type Account, type ServeProcess, startControlPlane, stop } from '../harness/control_plane.ts'
import { holdsFor, poll } from '../harness/poll.ts'
import { testRun } from '../harness/test_run.ts'
import { accountUuid, addEvents, newDestination } from './destinations.ts'
import { webhookEnv } from './environment.ts'
import { startReceiver } from './receiver.ts'

const [oldKey, newKey] = [randomBytes(32).toString('base64'), randomBytes(32).toString('base64')]
function keyFile(name: string, ...keys: string[]): string {
  const file = join(testRun.folder, `webhook-${process.pid}-${name}.key`)
  writeFileSync(file, `${keys.join('\n')}\n`, { mode: 0o600 })
  return file
}
const onlyOld = keyFile('old', oldKey)
const onlyNew = keyFile('new', newKey)
const both = keyFile('both', newKey, oldKey)
const plane = await startControlPlane({ after }, { env: { ...webhookEnv, GATEHOUSE_SECRETS_KEY_FILE: onlyOld } })

/** Replaces the one process by one with these keys. */
async function restartWith(file: string): Promise<ServeProcess> {
  for (const { child } of plane.processes.splice(0)) await stop(child)
  return plane.startProcess({ GATEHOUSE_SECRETS_KEY_FILE: file })
}
const clientOf = ({ token }: Account, { origin }: ServeProcess) => createClient([origin], token)
const rowOf = async (id: string) =>
  (
    await plane.db.query({
      text: 'select secret, previous_secret, secret_key_id, previous_secret_key_id from webhook_destinations where id = $1',
      values: [toUuid(id as `whd_${string}`)],
    })
  ).rows[0]
const inClear = (id: string, secret: string, previous: string | null = null) =>
  plane.db.query({
    text: `update webhook_destinations set secret = $2, sealed_secret = null, secret_key_id = null, previous_secret = $3,
             sealed_previous_secret = null, previous_secret_key_id = null where id = $1`,
    values: [toUuid(id as `whd_${string}`), secret, previous],
  })
const rotateSecrets = (file: string) =>
  gatehouse(['secrets', 'rotate'], { GATEHOUSE_DATABASE_URL: plane.databaseUrl, GATEHOUSE_SECRETS_KEY_FILE: file })

/** Every form in which a dump could show a secret: its text, its bytes, and both in hexadecimal. */
function assertNotIn(dump: string, secret: string): void {
  const text = secret.slice('whsec_'.length)
  const forms = [text, Buffer.from(text).toString('hex'), Buffer.from(text, 'base64').toString('hex')]
  for (const form of forms) assert.ok(!dump.includes(form), 'the dump has a secret')
}

test('a dump of the database has no secret, before and after a rotation', async (t) => {
  const admin = await plane.newAccount()
  const receiver = await startReceiver(t)
  const headers = { 'idempotency-key': 'create-once' }
  const { body: destination } = await admin('POST', '/webhook_destinations', { url: receiver.url() }, { headers })
  const rotated = await admin('POST', `${destination.uri}/rotate`, {})
  const dump = await allRows(plane.db)
  assert.ok(dump.includes(receiver.url()), 'the dump has the destination')
  assertNotIn(dump, destination.secret)
  assertNotIn(dump, rotated.body.secret)
  const log = JSON.stringify(plane.processes.flatMap((process) => process.log))
  assertNotIn(log, rotated.body.secret)
  // The receiver knows the replaced secret only: that one can still be read, too.
  receiver.state.secrets.push(destination.secret)
  await addEvents(plane, admin, ['a'])
  await poll(() => receiver.received.some(({ resource }) => resource === 'a'))
})

test('secrets that an earlier version stored in clear text still work, and are encrypted as soon as a process has a key', async (t) => {
  const admin = await plane.newAccount()
  const receiver = await startReceiver(t)
  const destination = await newDestination(admin, receiver, { operations: ['x.*'] })
  await inClear(destination.id, destination.secret, destination.secret)
  const bare = await restartWith('')
  await poll(() => bare.log.some(({ level, msg }) => level === 'warn' && /stored in clear/.test(msg)))
  await addEvents(plane, admin, ['a'])
  await poll(() => receiver.received.length === 1)
  assert.equal((await rowOf(destination.id)).secret, destination.secret)

  const client = clientOf(admin, bare)
  for (const [path, body] of [
    ['/webhook_destinations', { url: receiver.url() }],
    [`/webhook_destinations/${destination.id}/rotate`, {}],
  ] as const) {
    const refused = await client('POST', path, body)
    assert.deepEqual([refused.status, refused.body.error_code], [409, 'ERR_NO_SECRETS_KEY'])
    assert.match(refused.body.msg, /cannot store secrets of webhooks: its operator has not set/)
  }
  assert.equal((await client('PATCH', destination.uri, { description: 'still changeable' })).status, 200)

  await restartWith(onlyOld)
  const row = await poll(
    () => rowOf(destination.id),
    ({ secret }) => secret === null,
  )
  assert.equal(row.previous_secret, null)
  assert.match(row.secret_key_id, /^[0-9a-f]{16}$/)
  assert.equal(row.previous_secret_key_id, row.secret_key_id)
  await addEvents(plane, admin, ['b'])
  await poll(() => receiver.received.length === 2)
})

test('`secrets rotate` encrypts them with the new key; without the key events wait, unsigned ones are never sent', async (t) => {
  const admin = await plane.newAccount()
  const receiver = await startReceiver(t)
  const destination = await newDestination(admin, receiver, { operations: ['x.*'] })
  await admin('POST', `${destination.uri}/rotate`, {})
  const without = await restartWith(onlyNew)
  await poll(() =>
    without.log.some(({ level, msg }) => level === 'error' && /^webhook secrets cannot be read/.test(msg)),
  )
  await addEvents(plane, admin, ['a'])
  await poll(() => without.log.some((line) => JSON.stringify(line).includes(`the secret of ${destination.id}`)))
  await holdsFor(500, () => receiver.state.attempts === 0)
  const unreadable = await rotateSecrets(onlyNew)
  assert.equal(unreadable.code, 1)
  assert.match(unreadable.stderr, new RegExp(`the secret of ${destination.id} cannot be read: it is encrypted with`))

  const rotated = await rotateSecrets(both)
  assert.equal(rotated.code, 0, rotated.stderr)
  const { secret_key_id, previous_secret_key_id } = await rowOf(destination.id)
  assert.equal(secret_key_id, JSON.parse(rotated.stdout).key_id)
  assert.equal(previous_secret_key_id, secret_key_id)
  assert.equal(JSON.parse((await rotateSecrets(both)).stdout).encrypted, 0)
  // Its pause after the failure is a minute; the old key is not needed any more.
  await plane.db.query({ text: 'update webhook_progress set leased_until = now()' })
  await poll(() => receiver.received.length === 1)
})

test('a secret that is moved to a row of another account cannot be used there', async (t) => {
  await restartWith(both)
  const [victim, thief] = [await plane.newAccount(), await plane.newAccount()]
  const receiver = await startReceiver(t)
  const theirs = await newDestination(victim, receiver, { operations: ['none.of'] })
  const mine = await newDestination(thief, receiver, { operations: ['x.*'] })
  await plane.db.query({
    text: `update webhook_destinations d set sealed_secret = v.sealed_secret, secret_key_id = v.secret_key_id
           from webhook_destinations v where d.account_id = $1 and d.id = $2 and v.id = $3`,
    values: [accountUuid(thief), toUuid(mine.id), toUuid(theirs.id)],
  })
  await addEvents(plane, thief, ['a'])
  const logs = () => JSON.stringify(plane.processes.flatMap(({ log }) => log))
  await poll(() => logs().includes(`the secret of ${mine.id} cannot be read: it was changed, or moved here`))
  await holdsFor(500, () => receiver.state.attempts === 0)
})
