// Nodes that reach NATS only through a leaf server of their region.
import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { jetstream } from '@nats-io/jetstream'
import { Kvm } from '@nats-io/kv'
import { connect, type NatsConnection } from '@nats-io/transport-node'
import { startNats } from '../../dev/nats.ts'
import { transaction } from '../../src/db/transaction.ts'
import { openBucketApi } from '../../src/distribution/bucket_api.ts'
import {
  type Channels,
  channelsOf,
  defaultChannels,
  inboxOf,
  linkedRenewalSubject,
  renewalSubject,
} from '../../src/distribution/channels.ts'
import { issuedAt, readCredentials } from '../../src/distribution/credentials_file.ts'
import { accountPusher, controlPlaneUser } from '../../src/fleet/nats_accounts.ts'
import { type Id, toUuid } from '../../src/kernel/ids.ts'
import { placeAccount } from '../../src/operations/placement.ts'
import { startHttpUpstream } from '../agent/http_harness.ts'
import { gatehouse } from '../harness/command.ts'
import type { Scope } from '../harness/control_plane.ts'
import { make, newHttpsEdge } from '../harness/fixtures.ts'
import { loadScaledTimeout } from '../harness/load_scaled_timeout.ts'
import { holdsFor, poll } from '../harness/poll.ts'
import { contentsOf, tryEverything } from '../hostile/stolen_node.ts'
import { statusOf } from '../upgrade/installation.ts'
import { addNode, connectWith } from './operator_nats.ts'
import { startRegion } from './region.ts'

const file = { after: (cleanUp: () => Promise<void>) => after(cleanUp) }
const region = await startRegion(file)
const { fleet, eu, operator } = region
const leaf = await region.newLeaf('eu-1')
const hub = { url: fleet.nats.url, operator }
const system = await connectWith(file, hub, accountPusher(operator, Date.now()))
const control = await connectWith(file, hub, controlPlaneUser(operator, Date.now()))
const machine = await fleet.joinMachine(await fleet.invite('edge-eu', eu))
const node = await fleet.startJoined(machine)
const web = await startHttpUpstream(file, 'web')

assert.equal((await fleet.ask(await fleet.invite('edge-home'))).status, 200)
await poll(
  async () => (await contentsOf(control))?.entries ?? [],
  (entries) => entries.length > 1 && entries.at(-1)?.key === 'progress',
)
const others = [defaultChannels, channelsOf('us')]
await new Kvm(jetstream(control)).create(channelsOf('us').records)
const account = await fleet.newAccount()
await transaction(fleet.db, (tx) => placeAccount(tx, toUuid(account.accountId as Id<'ac'>), [eu]))
const backend = { backend_id: (await make(account, '/backends/static', { address: `127.0.0.1:${web.port}` })).id }
async function newSite(host: string) {
  const edge = await newHttpsEdge(account, { hostports: [`${host}:443`] })
  await make(account, `${edge.uri}/routes`, { match_type: 'path_prefix', match: '/', backend })
  return edge
}
const served = (host: string) =>
  poll(
    () => statusOf(node.httpsPort, host, '127.0.0.1', '/'),
    (status) => status === 200,
  )

test('a node joins through the leaf server of its region, gets changes and reports', async () => {
  const settings = await readFile(machine.envFile, 'utf8')
  assert.match(settings, new RegExp(`^GATEHOUSE_NATS_URL=${leaf.url}$`, 'm'))
  const edge = await newSite('one.example')
  await served('one.example')
  const answer = await poll(
    () => account('PATCH', `${edge.uri}?wait=applied`, { description: 'changed' }),
    ({ headers }) => headers.get('service-applied') === '1/1',
  )
  assert.equal(answer.status, 200)
})

test('a change crosses the link once, however many nodes there are in the region', async () => {
  const cellAccount = await region.cellAccount()
  const nodes: Awaited<ReturnType<typeof addNode>>[] = []
  for (let index = 0; index < 5; index++)
    nodes.push(await addNode(file, { url: leaf.url, operator }, system, `edge-many-${index}`, 'eu', 0, cellAccount))
  // The publisher sends there, too.
  const heard = nodes.map((): string[] => [])
  for (const [index, { connection }] of nodes.entries()) {
    connection.subscribe(channelsOf('eu').batches, {
      callback: (_, message) => void heard[index]?.push(message.string()),
    })
    await connection.flush()
  }
  const outgoing = async () => (await region.linked()).find(({ account }) => account === cellAccount)?.out_msgs ?? 0
  // Until the interest has crossed the link.
  await poll(() => {
    control.publish(channelsOf('eu').batches, 'is it there?')
    return heard.every((texts) => texts.includes('is it there?'))
  })
  const before = await outgoing()
  for (let i = 0; i < 20; i++) control.publish(channelsOf('eu').batches, 'a batch')
  await poll(() => heard.every((texts) => texts.filter((text) => text === 'a batch').length === 20))
  const crossed = (await outgoing()) - before
  assert.ok(crossed >= 20 && crossed < 40, `${crossed} messages for 20 batches to 6 nodes`)
})

test('a node that connects to the servers of the control plane hears each change once, too', async () => {
  const cellAccount = await region.cellAccount()
  const { connection } = await addNode(file, hub, system, 'edge-direct', 'eu', 0, cellAccount)
  const heard: string[] = []
  connection.subscribe(channelsOf('eu').batches, { callback: (_, message) => void heard.push(message.string()) })
  await connection.flush()
  for (const text of ['one', 'two']) control.publish(channelsOf('eu').batches, text)
  await poll(() => heard.includes('two'))
  assert.deepEqual(heard, ['one', 'two'])
  const asked: string[] = []
  control.subscribe(channelsOf('eu').tail('*'), { callback: (_, { subject }) => void asked.push(subject) })
  await control.flush()
  connection.publish(channelsOf('eu').tail('edge-direct'), '{}')
  const api = await openBucketApi(connection, channelsOf('eu'))
  assert.equal(api.isShared, false)
  assert.ok((await api.streams.info('KV_gatehouse_cell_eu')).state.messages > 0)
  await poll(() => asked.length > 0)
  assert.deepEqual(asked, [channelsOf('eu').tail('edge-direct')])
})

const [probe, ownProbe] = ['of another cell', 'of its own cell']
const kinds = ['reports', 'requests', 'tail'] as const

/** Until what this connection may ask is answered, past the link: before that, everything would look refused. */
const untilAnswered = (connection: NatsConnection) =>
  poll(() => openBucketApi(connection, channelsOf('eu'), 1_000).catch(() => undefined))

/** What is answered to the calls with which buckets are read, under any name of the API. Nothing when it may not ask. */
async function answersOf(thief: NatsConnection, { records }: Channels): Promise<string[]> {
  const calls = ['gatehouse.api', '$JS.API', 'gatehouse.api.$JS.API'].flatMap((prefix) => [
    { subject: `${prefix}.STREAM.INFO.KV_${records}`, body: '' },
    { subject: `${prefix}.STREAM.MSG.GET.KV_${records}`, body: '{"seq":1}' },
    { subject: `${prefix}.DIRECT.GET.KV_${records}`, body: '{"seq":1}' },
  ])
  const answers = await Promise.all(
    calls.map(({ subject, body }) =>
      thief.request(subject, body, { timeout: 1_000 }).then(
        () => [subject],
        () => [],
      ),
    ),
  )
  return answers.flat()
}

/** What this connection can read, change or hear of other cells and of the control plane. The same finds its own cell. */
async function assertWithoutRights(thief: NatsConnection, own: string, asking = thief): Promise<void> {
  const contents = () => Promise.all([...others, channelsOf('eu')].map(({ records }) => contentsOf(control, records)))
  const before = await contents()
  assert.ok(before.every(Boolean))
  const [heard, sentOn, sentOnOwn]: [string[], string[], string[]] = [[], [], []]
  for (const { batches, watches } of [...others, channelsOf('eu')])
    for (const subject of [batches, watches])
      thief.subscribe(subject, { callback: (_, message) => void heard.push(message.string()) })
  const listen = (channels: Channels, found: string[]) =>
    kinds.map((kind) =>
      control.subscribe(channels[kind]('*'), { callback: (_, { subject }) => void found.push(subject) }),
    )
  const listening = [...others.flatMap((channels) => listen(channels, sentOn)), ...listen(channelsOf('eu'), sentOnOwn)]
  await Promise.all([thief.flush(), control.flush()])

  await poll(() => {
    for (const { batches, watches } of others) for (const subject of [batches, watches]) control.publish(subject, probe)
    control.publish(channelsOf('eu').batches, ownProbe)
    return heard.includes(ownProbe)
  })
  assert.deepEqual(
    await answersOf(asking, channelsOf('eu')),
    ['STREAM.INFO', 'STREAM.MSG.GET', 'DIRECT.GET'].map((call) => `gatehouse.api.${call}.KV_gatehouse_cell_eu`),
  )
  for (const channels of others) assert.deepEqual(await answersOf(asking, channels), [])

  let sent = 0
  for (const asked of [...others, channelsOf('eu')]) sent += await tryEverything(thief, ['r.1', 'r.2'], asked, own)
  assert.ok(sent > 50_000, `only ${sent} combinations`)
  // The last of them has crossed the link.
  await poll(() => {
    thief.publish(channelsOf('eu').tail(own), '{}')
    return sentOnOwn.includes(channelsOf('eu').tail(own))
  })
  await holdsFor(500, () => sentOn.length === 0)
  // Its own server has given it what it sent itself.
  assert.ok(!heard.includes(probe))
  assert.deepEqual(await contents(), before)
  for (const each of listening) each.unsubscribe()
}

const isRenewed = (thief: NatsConnection, subject: string): Promise<boolean> =>
  thief.request(subject, '', { timeout: 1_000 }).then(
    (answer) => issuedAt({ jwt: answer.string() }) !== undefined,
    () => false,
  )

/** The node of another cell gets no JWT through this connection, also not under the subject that the cell may use. */
async function assertNotRenewed(thief: NatsConnection): Promise<void> {
  const subjects = [
    ...['eu', 'default', 'us'].map((cell) => linkedRenewalSubject(cell, 'edge-home')),
    renewalSubject('edge-home'),
  ]
  assert.deepEqual(
    await Promise.all(subjects.map((subject) => isRenewed(thief, subject))),
    subjects.map(() => false),
  )
}

test('with the JWT of a node, nothing of another cell can be read, heard or changed through the leaf server', async () => {
  const credentials = readCredentials(await readFile(join(machine.folder, 'nats.creds'), 'utf8'))
  const thief = await connectWith(file, leaf, credentials, { inboxPrefix: inboxOf('edge-eu') })
  await untilAnswered(thief)
  assert.equal(await isRenewed(thief, renewalSubject('edge-eu')), true)
  await assertNotRenewed(thief)
  await assertWithoutRights(thief, 'edge-eu')
})

const filesOfLeaf = ['system.creds', 'cell-eu.creds'] as const

/**
 * A server of a thief with one of the files of the leaf server. NATS brings answers over such a link only to what another
 * account asks, as at a leaf server: the thief sends and hears with one connection, and asks with the other. In the system
 * account they come to its inbox.
 */
async function startRogue(scope: Scope, name: (typeof filesOfLeaf)[number]) {
  const [url] = region.links.map((link) => link.url)
  const conf = join(leaf.folder, `${name}.rogue.conf`)
  const subjects = ['gatehouse.>', '$JS.API.>']
  const exported = subjects.map((subject) => `{ service: "${subject}" }`)
  const imported = subjects.map((subject) => `{ service: { account: LINKED, subject: "${subject}" } }`)
  await writeFile(
    conf,
    `accounts {
      LINKED { users: [{ user: linked, password: linked }], exports: [${exported}] }
      ASKING { users: [{ user: asking, password: asking }], imports: [${imported}] }
    }
    leafnodes { remotes: [{ url: "${url}", account: LINKED, credentials: "${join(leaf.folder, name)}" }] }\n`,
  )
  const rogue = await startNats({ name: `rogue-${name}`, authorization: conf, hasJetStream: false })
  scope.after(async () => {
    await rogue.stop()
    await poll(region.linked, (found) => found.length === 2)
  })
  await poll(region.linked, (found) => found.length === 3)
  const as = async (user: string) => {
    const inboxPrefix = user === 'linked' ? '$SYS._INBOX.thief' : '_INBOX'
    const connection = await connect({ servers: rogue.url, user, pass: user, inboxPrefix })
    scope.after(() => connection.close())
    return connection
  }
  return { linked: await as('linked'), asking: await as('asking') }
}

test('the files of a leaf server are of no use to a client', async () => {
  for (const name of filesOfLeaf) {
    const credentials = readCredentials(await readFile(join(leaf.folder, name), 'utf8'))
    await assert.rejects(connectWith(file, hub, credentials, { reconnect: false }), /Authorization/)
  }
})

test('a server with the credentials of a cell does not reach past it, and renews no JWT of another cell', async (t) => {
  const { linked, asking } = await startRogue(t, 'cell-eu.creds')
  await untilAnswered(asking)
  assert.equal(await isRenewed(asking, linkedRenewalSubject('eu', 'edge-eu')), true)
  await assertNotRenewed(asking)
  await assertWithoutRights(linked, 'edge-eu', asking)
})

test('a server with the credentials for accounts reads those, and gives none', async (t) => {
  const { linked, asking } = await startRogue(t, 'system.creds')
  const ask = (subject: string, body = '') =>
    linked.request(subject, body, { timeout: 1_000 }).then(
      (answer) => answer.string(),
      () => undefined,
    )
  const lookUp = `$SYS.REQ.ACCOUNT.${operator.keys.control.publicKey}.CLAIMS.LOOKUP`
  await poll(() => ask(lookUp))
  for (const subject of ['$SYS.REQ.CLAIMS.UPDATE', '$SYS.REQ.CLAIMS.DELETE', '$SYS.REQ.SERVER.PING'])
    assert.equal(await ask(subject, 'nonsense'), undefined, subject)
  for (const channels of [...others, channelsOf('eu')]) assert.deepEqual(await answersOf(asking, channels), [])
})

test('a region that was cut off serves what it has, and has the changes after the link is back', async () => {
  await region.cut()
  const edge = await newSite('two.example')
  await account('PATCH', edge.uri, { description: 'while it was cut off' })
  assert.equal(await statusOf(node.httpsPort, 'one.example', '127.0.0.1', '/'), 200)
  assert.notEqual(await statusOf(node.httpsPort, 'two.example', '127.0.0.1', '/'), 200)
  const credentials = readCredentials(await readFile(join(machine.folder, 'nats.creds'), 'utf8'))
  const cutOff = await connectWith(file, leaf, credentials, { inboxPrefix: inboxOf('edge-eu') })
  await assert.rejects(openBucketApi(cutOff, channelsOf('eu')), 'it is not in the account of the control plane')
  const from = performance.now()
  await region.heal()
  await served('two.example')
  console.log(`the change was in force ${Math.round(performance.now() - from)} ms after the link was back`)
})

test('a revoked node loses its connection at the leaf server within a second', async () => {
  const doomed = await fleet.joinMachine(await fleet.invite('edge-doomed', eu))
  const credentials = readCredentials(await readFile(join(doomed.folder, 'nats.creds'), 'utf8'))
  const connection = await connectWith(file, leaf, credentials, { reconnect: false })
  let closedAt = 0
  void connection.closed().then(() => {
    closedAt = performance.now()
  })
  const revoked = await gatehouse(['nodes', 'revoke', 'edge-doomed'], fleet.env)
  const from = performance.now()
  assert.equal(revoked.code, 0, revoked.stderr)
  await poll(() => closedAt > 0)
  assert.ok(closedAt - from < loadScaledTimeout(1_000), `${closedAt - from} ms`)
  await assert.rejects(connectWith(file, leaf, credentials, { reconnect: false }), /Authorization/)
})

test('the links of a cell can be closed, and made again for another leaf server', async () => {
  const closed = await gatehouse(['nats', 'unlink', 'eu'], fleet.env)
  assert.equal(closed.code, 0, closed.stderr)
  await poll(region.linked, (found) => found.length === 1)
  const second = await region.newLeaf('eu-2')
  const again = await fleet.joinMachine(await fleet.invite('edge-eu-2', eu))
  const credentials = readCredentials(await readFile(join(again.folder, 'nats.creds'), 'utf8'))
  const nats = await connectWith(file, second, credentials, { inboxPrefix: inboxOf('edge-eu-2') })
  const api = await untilAnswered(nats)
  assert.ok(((await api?.streams.info('KV_gatehouse_cell_eu'))?.state.messages ?? 0) > 0)
})
