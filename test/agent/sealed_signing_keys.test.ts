// The keys that sign records are at rest only encrypted, and records are signed with them all the same.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { many, one, run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { allRows } from '../harness/all_rows.ts'
import { createClient } from '../harness/client.ts'
import { gatehouse } from '../harness/command.ts'
import { type ServeProcess, secretsBox, secretsKeyFile, stop } from '../harness/control_plane.ts'
import { startInstallation } from '../harness/edge.ts'
import { holdsFor, poll } from '../harness/poll.ts'
import { formsOf, foundIn } from '../harness/secret_forms.ts'
import { testRun } from '../harness/test_run.ts'
import { get } from './http_harness.ts'

const installation = await startInstallation({ after })
const { db, admin, publicKey, processes } = installation
const edge = await installation.startEdge()

function keyFile(name: string, ...keys: Buffer[]): string {
  const file = join(testRun.folder, `signing-${process.pid}-${name}.key`)
  writeFileSync(file, keys.map((key) => `${key.toString('base64')}\n`).join(''), { mode: 0o600 })
  return file
}
const [first, second] = [Buffer.alloc(32, 'a key for tests'), randomBytes(32)]
const both = keyFile('both', second, first)
const onlySecond = keyFile('second', second)

const command = (args: string[], file: string) =>
  gatehouse(args, { GATEHOUSE_DATABASE_URL: installation.databaseUrl, GATEHOUSE_SECRETS_KEY_FILE: file })

/** Replaces all processes by one with these keys. */
async function restartWith(file: string): Promise<ServeProcess> {
  for (const { child } of processes.splice(0)) await stop(child)
  return installation.startProcess({ GATEHOUSE_SECRETS_KEY_FILE: file })
}
const warningsOf = async ({ origin }: ServeProcess): Promise<string[]> =>
  ((await (await fetch(`${origin}/readyz`)).json()) as { warnings?: string[] }).warnings ?? []

const backend = await admin('POST', '/backends/http_response', { status_code: 200, body: 'here' })
async function addSite(host: string, { origin }: ServeProcess): Promise<void> {
  const client = createClient([origin], admin.token)
  const { body: site } = await client('POST', '/edges/https', { hostports: [`${host}:443`] })
  const route = { match_type: 'path_prefix', match: '/', backend: { backend_id: backend.body.id } }
  const added = await client('POST', `/edges/https/${site.id}/routes`, route)
  assert.equal(added.status, 201, added.text)
}
const serves = async (host: string) => (await get(edge, { host })).body === 'here'

/** As the version before stored it. */
async function inClear(): Promise<string> {
  const row = await one<{ sealed: Buffer; key: string }>(
    db,
    sql`select sealed_private_key as sealed, secrets_key_id as key from signing_keys where public_key = ${publicKey}`,
  )
  const pem = secretsBox.open({ keyId: row.key, sealed: row.sealed }, `signing_keys ${publicKey}`)
  await run(
    db,
    sql`
    update signing_keys set private_key = ${pem}, sealed_private_key = null, secrets_key_id = null
    where public_key = ${publicKey}`,
  )
  return pem
}
const storedAs = () =>
  one<{ private_key: string | null; secrets_key_id: string | null }>(
    db,
    sql`select private_key, secrets_key_id from signing_keys where active`,
  )

test('a key that an earlier version stored in clear signs records, and `secrets rotate` encrypts it', async () => {
  const pem = await inClear()
  assert.notDeepEqual(foundIn(await allRows(db), formsOf(pem)), [], 'the search finds a key in clear')
  const bare = await restartWith('')
  await poll(() => bare.log.some(({ level, msg }) => level === 'warn' && /^signing keys are stored in clear/.test(msg)))
  await addSite('clear.example', bare)
  await poll(() => serves('clear.example'))
  assert.equal((await storedAs()).private_key, pem, 'a start changes nothing that an older process beside it reads')

  const serve = await restartWith(secretsKeyFile())
  await poll(() => serve.log.some(({ msg }) => /^signing keys are stored in clear. Run 'gatehouse secrets/.test(msg)))
  const rotated = await command(['secrets', 'rotate'], secretsKeyFile())
  assert.equal(rotated.code, 0, rotated.stderr)
  assert.equal(JSON.parse(rotated.stdout).encrypted, 1)
  assert.deepEqual(await storedAs(), { private_key: null, secrets_key_id: secretsBox.keyId })
  await addSite('sealed.example', serve)
  await poll(() => serves('sealed.example'))
  assert.deepEqual(foundIn(await allRows(db), formsOf(pem)), [])
})

test('a dump of the database has no private signing key, and none is added in clear beside encrypted ones', async () => {
  const added = await command(['signing-keys', 'add'], secretsKeyFile())
  assert.equal(added.code, 0, added.stderr)
  const refused = await command(['signing-keys', 'add'], '')
  assert.deepEqual([refused.code, refused.stdout], [2, ''])
  assert.match(refused.stderr, /signing keys are encrypted here, so set GATEHOUSE_SECRETS_KEY_FILE/)
  const rows = await many<{ public_key: string; sealed: Buffer; key: string }>(
    db,
    sql`select public_key, sealed_private_key as sealed, secrets_key_id as key from signing_keys`,
  )
  assert.deepEqual(rows.map(({ public_key }) => public_key).sort(), [publicKey, added.stdout.trim()].sort())
  const dump = await allRows(db)
  assert.ok(dump.includes(publicKey))
  const logs = JSON.stringify(processes.map(({ log }) => log)) + added.stdout + added.stderr
  for (const { public_key, sealed, key } of rows) {
    const needles = formsOf(secretsBox.open({ keyId: key, sealed }, `signing_keys ${public_key}`))
    assert.deepEqual([foundIn(dump, needles), foundIn(logs, needles)], [[], []])
    // Bound to its row: beside another public key it cannot be used.
    assert.throws(() => secretsBox.open({ keyId: key, sealed }, 'signing_keys ed25519:other'), /moved here/)
  }
})

test('a process without the secrets key publishes nothing and says so; nodes serve, and one with the key takes over', async () => {
  for (const [file, reason] of [
    [onlySecond, `it is encrypted with the key ${secretsBox.keyId}, which is not in GATEHOUSE_SECRETS_KEY_FILE`],
    ['', 'it is encrypted, and GATEHOUSE_SECRETS_KEY_FILE is not set'],
  ] as const) {
    const without = await restartWith(file)
    const [warning = ''] = await poll(
      () => warningsOf(without),
      (warnings) => warnings.length > 0,
    )
    assert.ok(warning.startsWith(`this process cannot read the signing key ${publicKey}: ${reason}`), warning)
    assert.match(warning, /It publishes nothing, and edge nodes keep what they have$/)
    const logged = () => without.log.filter(({ level, msg }) => level === 'error' && msg === `publisher: ${warning}`)
    // Log lines are written a moment later.
    await poll(() => logged().length > 0)
    await poll(() => without.log.some(({ msg }) => /^signing keys cannot be read: /.test(msg)))
    const host = `without-${file.length}.example`
    await addSite(host, without)
    await holdsFor(1_500, async () => (await serves('sealed.example')) && !(await serves(host)))
    const withKey = await installation.startProcess()
    await poll(() => serves(host))
    assert.deepEqual(await warningsOf(withKey), [])
    assert.deepEqual([(await warningsOf(without)).length, logged().length], [1, 1])
  }
})

test('a rotation of the secrets key covers signing keys, while a process with both keys publishes', async () => {
  const count = (await many(db, sql`select from signing_keys`)).length
  const serve = await restartWith(both)
  const missing = await command(['secrets', 'rotate'], onlySecond)
  assert.equal(missing.code, 1)
  assert.ok(missing.stderr.includes(`the private signing key of ${publicKey} cannot be read: it is encrypted with`))
  assert.equal((await storedAs()).secrets_key_id, secretsBox.keyId)
  const rotated = await command(['secrets', 'rotate'], both)
  assert.deepEqual([rotated.code, JSON.parse(rotated.stdout).encrypted], [0, count])
  const { stdout } = await command(['secrets', 'list'], both)
  const natsKeys = ', NATS key sets: 0'
  const [now, before] = [`, signing keys: ${count}${natsKeys}  current`, `, signing keys: 0${natsKeys}`]
  assert.match(stdout, new RegExp(`${now}\\n${secretsBox.keyId}  .*${before}\\n`))
  await addSite('rotated.example', serve)
  await poll(() => serves('rotated.example'))
  const last = await restartWith(onlySecond)
  await addSite('last.example', last)
  await poll(() => serves('last.example'))
  assert.deepEqual(await warningsOf(last), [])
})
