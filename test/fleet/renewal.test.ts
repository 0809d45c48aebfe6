// A node keeps its JWT fresh, and a revoked one can decrypt nothing that is sent afterwards.
import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { credentialsText, issuedAt, readCredentials } from '../../src/distribution/credentials_file.ts'
import { newNodeKey, openForNode, openPrivateKey, readNodeKey } from '../../src/distribution/delivery.ts'
import { certificateContext } from '../../src/distribution/records.ts'
import { controlPlaneUser, nodeUserJwt } from '../../src/fleet/nats_accounts.ts'
import { natsKeyOf, newNatsKey } from '../../src/fleet/nats_jwt.ts'
import { findFleetNode } from '../../src/fleet/node_store.ts'
import { newCertificate } from '../harness/certificates.ts'
import { gatehouse } from '../harness/command.ts'
import { make } from '../harness/fixtures.ts'
import { poll } from '../harness/poll.ts'
import { contentsOf } from '../hostile/stolen_node.ts'
import { startJoining } from './joining.ts'
import { connectWith } from './operator_nats.ts'

const file = { after: (cleanUp: () => Promise<void>) => after(cleanUp) }
const fleet = await startJoining(file)
await fleet.untilReady()
const dayMs = 24 * 60 * 60 * 1_000

test('a node replaces a JWT that is older than a day, and one that its own clock takes for one of the future', async () => {
  for (const [name, issued] of [
    ['old', Date.now() - 2 * dayMs],
    ['future', Date.now() + 60 * 60 * 1_000],
  ] as const) {
    const machine = await fleet.joinMachine(await fleet.invite(name))
    assert.equal(machine.code, 0, machine.stderr)
    const creds = join(machine.folder, 'nats.creds')
    const current = async () => readCredentials(await readFile(creds, 'utf8'))
    const { seed } = await current()
    const node = await findFleetNode(fleet.db, name)
    assert.ok(node)
    assert.equal(node.user, natsKeyOf(seed).publicKey)
    const jwt = nodeUserJwt(fleet.operator, node, issued)
    await writeFile(creds, credentialsText({ jwt, seed }))
    const before = Date.now()
    await fleet.startJoined(machine, { GATEHOUSE_EDGE_NODE: name })
    const renewed = await poll(current, (now) => now.jwt !== jwt)
    assert.equal(renewed.seed, seed)
    const at = issuedAt(renewed) ?? 0
    assert.ok(at >= before - 1_000 && at <= Date.now(), `${at}`)
  }
})

test('what is sent after a node was revoked can be decrypted by the others and not by it', async () => {
  const { admin, ask, invite, operator } = fleet
  const keys = Object.fromEntries(['stays', 'stolen'].map((name) => [name, readNodeKey(newNodeKey().privateKey)]))
  for (const [name, { publicKey }] of Object.entries(keys)) {
    const joined = await ask(await invite(name), { nats_user: newNatsKey('user').publicKey, node_key: publicKey })
    assert.equal(joined.status, 200)
  }
  const certificate = await make(admin, '/tls_certificates', newCertificate(['first.test']))
  const domain = await make(admin, '/reserved_domains', { domain: 'first.test' })
  const assigned = await gatehouse(['domains', 'assign', admin.accountId, 'first.test'], fleet.env)
  assert.equal(assigned.code, 0, assigned.stderr)
  assert.equal((await admin('PATCH', domain.uri, { certificate_id: certificate.id })).status, 200)

  const control = await connectWith(file, fleet.nats, controlPlaneUser(operator, Date.now()))
  type Sent = { key: string; value: Record<string, string> | null }
  const sent = async (): Promise<Sent[]> => {
    const { entries = [] } = (await contentsOf(control)) ?? {}
    return entries.flatMap(({ text }) => {
      const { payload } = JSON.parse(text || '{}')
      return payload ? [JSON.parse(payload)] : []
    })
  }
  /** Whether the node can open the certificate with what stands in the bucket now. */
  const opens = async (name: string) => {
    const records = await sent()
    const found = records.find(({ key, value }) => key === `certificate.${certificate.id}` && value)?.value
    const [node, own] = [keys[name], records.find(({ value }) => value?.node === name)?.value]
    if (!found || !node || !own) return found ? false : undefined
    const delivery = openForNode(`${own.key_id}`, `${own.sealed}`, node)
    const context = certificateContext(certificate.id, `${found.account}`)
    try {
      return { delivery, works: openPrivateKey(delivery, context, `${found.key}`).includes('PRIVATE KEY') }
    } catch {
      return { delivery, works: false }
    }
  }
  const works = (found: Awaited<ReturnType<typeof opens>>) => typeof found === 'object' && found.works
  await poll(() => opens('stays'), works)
  const stolen = await poll(() => opens('stolen'), works)
  assert.ok(typeof stolen === 'object')

  await fleet.nodes('revoke', 'stolen')
  await poll(
    () => opens('stolen'),
    (found) => found === false,
  )
  const after = await poll(() => opens('stays'), works)
  assert.ok(typeof after === 'object')
  assert.notEqual(after.delivery.id, stolen.delivery.id)
  const record = (await sent()).find(({ key }) => key === `certificate.${certificate.id}`)?.value
  assert.equal(record?.key_id, after.delivery.id)
  const context = certificateContext(certificate.id, `${record?.account}`)
  assert.throws(() => openPrivateKey(stolen.delivery, context, `${record?.key}`))
})
