// `npm run drill -- stolen-cell <accounts>`: 1,000 accounts of one cell, and a stolen node of another one: what it hears, the
// buckets that it can read, its disk and the memory of its processes are searched for their names, ids and private
// keys, and it tries more than 10,000 ways to read or write the other cell. The same must find its own account, and a node
// with the rights of the other cell.
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { NatsConnection } from '@nats-io/transport-node'
import { readBucket } from '../../src/agent/intake/bucket_reader.ts'
import { assignDomain } from '../../src/commands/accounts/domains.ts'
import { createCell } from '../../src/commands/cells/cells.ts'
import { transaction } from '../../src/db/transaction.ts'
import { openBucketApi } from '../../src/distribution/bucket_api.ts'
import { channelsOf, defaultChannels, inboxOf, progressKey } from '../../src/distribution/channels.ts'
import { readCredentials } from '../../src/distribution/credentials_file.ts'
import { accountPusher, controlPlaneUser } from '../../src/fleet/nats_accounts.ts'
import { type Id, toUuid } from '../../src/kernel/ids.ts'
import { systemTiming } from '../../src/kernel/system_timing.ts'
import { type Cell, findCell, placeAccount } from '../../src/operations/placement.ts'
import { startHttpUpstream } from '../agent/http_harness.ts'
import { type Joining, startJoining } from '../fleet/joining.ts'
import { addNode, connectWith } from '../fleet/operator_nats.ts'
import type { Scope } from '../harness/control_plane.ts'
import { drill } from '../harness/drill.ts'
import type { EdgeProcess } from '../harness/edge.ts'
import { make, newHttpsEdge } from '../harness/fixtures.ts'
import { pause, poll } from '../harness/poll.ts'
import { quickCertificate } from '../harness/quick_certificates.ts'
import { formsOf, foundInBytes, type Needle } from '../harness/secret_forms.ts'
import { filesOf, memoryOf, proxiesOf } from '../hostile/process_memory.ts'
import { contentsOf, tryEverything } from '../hostile/stolen_node.ts'
import { statusOf } from '../upgrade/installation.ts'

const [accounts = 1_000] = process.argv.slice(2).map(Number)
const atOnce = 20

/** Resolves to everything of the new account that a node of another cell must not have. */
async function newTenant(
  fleet: Joining,
  upstream: string,
  { host, cell }: { host: string; cell?: Cell },
): Promise<Needle[]> {
  const as = await fleet.newAccount()
  if (cell) await transaction(fleet.db, (tx) => placeAccount(tx, toUuid(as.accountId as Id<'ac'>), [cell]))
  const certificate = quickCertificate([host])
  const { id: certificate_id } = await make(as, '/tls_certificates', { ...certificate })
  const domain = await make(as, '/reserved_domains', { domain: host })
  await assignDomain(fleet.db, as.accountId, host)
  assert.equal((await as('PATCH', domain.uri, { certificate_id })).status, 200)
  const policy = await make(as, '/ip_policies')
  await make(as, '/ip_policy_rules', { ip_policy_id: policy.id, cidr: '127.0.0.0/8', action: 'allow' })
  const backend = { backend_id: (await make(as, '/backends/static', { address: upstream })).id }
  const edge = await newHttpsEdge(as, { hostports: [`${host}:443`] })
  const ip_restriction = { ip_policy_ids: [policy.id] }
  await make(as, `${edge.uri}/routes`, { match_type: 'path_prefix', match: '/', backend, ip_restriction })
  const text = (form: string, value: string) => ({ form, bytes: Buffer.from(value) })
  // Their beginning is a time, which others have as well.
  const forms = (form: string, id: Id) => [text(form, id.slice(-16)), text(form, toUuid(id).slice(-16))]
  return [
    ...[text('name', host)],
    ...forms('account id', as.accountId as Id),
    ...forms('edge id', edge.id),
    ...formsOf(certificate.private_key_pem)
      .filter(({ form }) => ['raw number', 'PEM'].includes(form))
      // OpenSSL holds numbers the other way round.
      .flatMap(({ bytes }) => [bytes, Buffer.from(bytes).reverse()].map((each) => ({ form: 'key', bytes: each }))),
  ]
}

async function newTenants(fleet: Joining, upstream: string): Promise<Needle[][]> {
  const tenants: Needle[][] = []
  while (tenants.length < accounts)
    tenants.push(
      ...(await Promise.all(
        Array.from({ length: Math.min(atOnce, accounts - tenants.length) }, (_, at) => {
          return newTenant(fleet, upstream, { host: `foreign-${tenants.length + at}.example` })
        }),
      )),
    )
  return tenants
}

const served = (node: EdgeProcess, host: string) =>
  poll(
    () => statusOf(node.httpsPort, host, '127.0.0.1', '/'),
    (status) => status === 200,
    { withinSeconds: 300 },
  )

/** Everything in the bucket, as a node reads it, or why it cannot. */
async function bucketOf(nats: NatsConnection, records: string): Promise<string> {
  const reading = new AbortController()
  let text = ''
  try {
    const api = await openBucketApi(nats, { records }, 1_000)
    if ((await api.streams.info(`KV_${records}`)).state.messages === 0) return text
    for await (const entry of readBucket(api, records, 1, systemTiming, reading.signal)) {
      text += `${entry.key} ${entry.text}\n`
      if (entry.pending === 0) reading.abort()
    }
  } catch (error) {
    return String(error)
  }
  return text
}

/**
 * With the connection of this node: all that it is sent and can read of the cell `default`, and what others hear of it there.
 * It also asks what it may ask in its own cell, with answers to there.
 */
async function attack(thief: NatsConnection, control: NatsConnection, { name, cell }: { name: string; cell: string }) {
  const [heard, sentOn]: [Buffer[], string[]] = [[], []]
  thief.subscribe('>', { callback: (_, { subject, data }) => void heard.push(Buffer.from(subject), Buffer.from(data)) })
  const listening = [defaultChannels.reports, defaultChannels.requests, defaultChannels.tail].map((subjectOf) =>
    control.subscribe(subjectOf('*'), {
      callback: (_, { subject }) => {
        // The node of that cell sends, too.
        if (!subject.endsWith('.edge-home')) sentOn.push(subject)
      },
    }),
  )
  await Promise.all([thief.flush(), control.flush()])
  const before = await contentsOf(control)
  assert.ok(before)
  let attempts = 0
  for (const asked of [defaultChannels, channelsOf(cell)])
    attempts += await tryEverything(thief, ['r.1', 'r.2'], asked, name)
  heard.push(Buffer.from(await bucketOf(thief, defaultChannels.records)))
  await pause(1_000)
  for (const each of listening) each.unsubscribe()
  const after = await contentsOf(control)
  const isUntouched = before.created === after?.created && recordsOf(before) === recordsOf(after)
  return { attempts, heard, sentOn: sentOn.length, isUntouched }
}

type Contents = Awaited<ReturnType<typeof contentsOf>>
/** How far the control plane has come is written there every second. */
const recordsOf = (contents: Contents): string =>
  JSON.stringify(contents?.entries.filter(({ key }) => key !== progressKey).map(({ key, text }) => [key, text]))

type Parts = Iterable<Buffer> | AsyncIterable<Buffer>

async function search(where: string, parts: Parts, foreign: readonly Needle[], own: readonly Needle[]) {
  const [ofOthers, ofOwn] = [new Set<string>(), new Set<string>()]
  let bytes = 0
  for await (const part of parts) {
    bytes += part.length
    for (const form of foundInBytes(part, foreign)) ofOthers.add(form)
    for (const form of foundInBytes(part, own)) ofOwn.add(form)
  }
  const listed = (found: Set<string>) => [...found].join(', ') || 'nothing'
  console.log(
    `${where}, ${(bytes / 1_000_000).toFixed(1)} MB: of other cells ${listed(ofOthers)}; of its own account ${listed(ofOwn)}`,
  )
  return { ofOthers, ofOwn }
}

async function connections(scope: Scope, fleet: Joining, folder: string) {
  const connect = (
    ...[credentials, options]: [Parameters<typeof connectWith>[2], Parameters<typeof connectWith>[3]?]
  ) => connectWith(scope, fleet.nats, credentials, options)
  const control = await connect(controlPlaneUser(fleet.operator, Date.now()))
  const system = await connect(accountPusher(fleet.operator, Date.now()))
  const credentials = readCredentials(await readFile(join(folder, 'nats.creds'), 'utf8'))
  const stolen = await connect(credentials, { inboxPrefix: inboxOf('edge-eu') })
  const { connection: member } = await addNode(
    scope,
    { url: fleet.nats.url, operator: fleet.operator },
    system,
    'edge-1',
    'default',
  )
  return { control, stolen, member }
}

await drill(async (scope) => {
  const fleet = await startJoining(scope)
  await fleet.untilReady()
  await createCell(fleet.db, { name: 'eu', isDefault: false, confirmed: true })
  const eu = await findCell(fleet.db, 'eu')
  assert.ok(eu)
  const start = async (name: string, cell?: Cell) =>
    fleet.startJoined(await fleet.joinMachine(await fleet.invite(name, cell)))
  const [home, thief] = [await start('edge-home'), await start('edge-eu', eu)]
  const upstream = `127.0.0.1:${(await startHttpUpstream(scope, 'web')).port}`
  const tenants = await newTenants(fleet, upstream)
  const foreign = tenants.flat()
  const own = await newTenant(fleet, upstream, { host: 'own.example', cell: eu })
  await served(thief, 'own.example')
  await served(home, `foreign-${accounts - 1}.example`)
  console.log(`${accounts} accounts in the cell default, ${foreign.length} texts to look for, and one account in eu`)

  const { control, stolen, member } = await connections(scope, fleet, thief.folder)
  const attacked = await attack(stolen, control, { name: 'edge-eu', cell: 'eu' })
  console.log(
    `${attacked.attempts} attempts to read or write the cell default with the JWT of the stolen node: ${attacked.sentOn} ` +
      `messages got there; its bucket is ${attacked.isUntouched ? 'as it was' : 'CHANGED'}`,
  )
  const places: Record<string, Parts> = {
    'what it hears': attacked.heard,
    'its buckets': await Promise.all(
      [channelsOf('eu').records, channelsOf('eu').blobs].map(async (name) =>
        Buffer.from(await bucketOf(control, name)),
      ),
    ),
    'its disk': filesOf(thief.folder),
    'the memory of its processes': memoryOf([thief.child.pid ?? 0, ...proxiesOf(thief.folder)]),
  }
  const [leaked, seen] = [new Set<string>(), new Set<string>()]
  for (const [where, parts] of Object.entries(places)) {
    const { ofOthers, ofOwn } = await search(where, parts, foreign, own)
    for (const form of ofOthers) leaked.add(form)
    for (const form of ofOwn) seen.add(form)
  }

  const asMember = await attack(member, control, { name: 'edge-1', cell: 'default' })
  const { ofOthers } = await search('what a node of the cell default hears', asMember.heard, foreign, own)
  const named = tenants.map((needles, index) =>
    needles.filter(({ form }) => form === 'name').map(({ bytes }) => ({ form: `${index}`, bytes })),
  )
  const atHome = new Set<string>()
  for await (const part of filesOf(home.folder)) for (const index of foundInBytes(part, named.flat())) atHome.add(index)
  console.log(
    `the same search finds ${atHome.size} of the ${accounts} accounts on the disk of the node of their cell; of its ` +
      `attempts, ${asMember.sentOn} messages got there`,
  )
  const isSeen = ['name', 'key'].every((form) => seen.has(form))
  const isControlled = ofOthers.has('name') && asMember.sentOn > 0 && atHome.size === accounts
  return leaked.size === 0 && attacked.sentOn === 0 && attacked.isUntouched && isSeen && isControlled
})
