// `npm run drill -- regions <nodes> <changes> <revocations> <seconds>`: a region of many nodes behind a leaf server, with three
// servers of NATS at the control plane: what crosses the link for a change, when it is in force, how soon a revoked node is
// cut off, and how soon the region has everything again after the link was cut for so many seconds while changes went on.
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { transaction } from '../../src/db/transaction.ts'
import { channelsOf, inboxOf } from '../../src/distribution/channels.ts'
import { readCredentials } from '../../src/distribution/credentials_file.ts'
import { accountPusher } from '../../src/fleet/nats_accounts.ts'
import { type Id, toUuid } from '../../src/kernel/ids.ts'
import { placeAccount } from '../../src/operations/placement.ts'
import { startHttpUpstream } from '../agent/http_harness.ts'
import { addNode, connectWith } from '../fleet/operator_nats.ts'
import { startRegion } from '../fleet/region.ts'
import { drill } from '../harness/drill.ts'
import { make, newHttpsEdge } from '../harness/fixtures.ts'
import { pause, poll } from '../harness/poll.ts'
import { quantile, quantiles } from '../harness/quantiles.ts'
import { statusOf } from '../upgrade/installation.ts'

const [nodeCount = 200, changes = 100, revocations = 10, cutSeconds = 30] = process.argv.slice(2).map(Number)
const goalMs = { revoked: 1_000 }

await drill(async (scope) => {
  const region = await startRegion(scope, 3)
  const { fleet, eu, operator } = region
  const leaf = await region.newLeaf('eu-1')
  const web = await startHttpUpstream(scope, 'web')
  const real = await fleet.startJoined(await fleet.joinMachine(await fleet.invite('edge-eu', eu)))
  const account = await fleet.newAccount()
  await transaction(fleet.db, (tx) => placeAccount(tx, toUuid(account.accountId as Id<'ac'>), [eu]))
  const backend = { backend_id: (await make(account, '/backends/static', { address: `127.0.0.1:${web.port}` })).id }
  const newSite = async (host: string) => {
    const edge = await newHttpsEdge(account, { hostports: [`${host}:443`] })
    await make(account, `${edge.uri}/routes`, { match_type: 'path_prefix', match: '/', backend })
    return edge
  }
  const served = (host: string) =>
    poll(
      () => statusOf(real.httpsPort, host, '127.0.0.1', '/'),
      (status) => status === 200,
      { everyMs: 10, withinSeconds: 120 },
    )
  const edge = await newSite('first.example')
  await served('first.example')

  const hub = { url: fleet.nats.url, operator }
  const system = await connectWith(scope, hub, accountPusher(operator, Date.now()))
  const cellAccount = await region.cellAccount()
  const batches = channelsOf('eu').batches
  let heard = 0
  for (let index = 0; index < nodeCount; index++) {
    const at = { url: leaf.url, operator }
    const { connection } = await addNode(scope, at, system, `edge-many-${index}`, 'eu', 0, cellAccount)
    connection.subscribe(batches, { callback: () => void heard++ })
    await connection.flush()
  }
  const link = async () => {
    const found = (await region.linked()).find(({ account }) => account === cellAccount)
    assert.ok(found)
    return found
  }
  await pause(2_000)
  const [before, heardBefore] = [await link(), heard]
  const times: number[] = []
  for (let change = 0; change < changes; change++) {
    const from = performance.now()
    const { status } = await account('PATCH', `${edge.uri}?wait=applied`, { description: `change ${change}` })
    assert.equal(status, 200)
    times.push(performance.now() - from)
  }
  await poll(
    () => heard,
    (count) => count >= heardBefore + nodeCount * changes,
    { withinSeconds: 60 },
  )
  const after = await link()
  console.log(`${changes} changes through the leaf server, from the request to 'applied': ${quantiles(times)}`)
  console.log(
    `${nodeCount + 1} nodes at the leaf server were sent ${heard - heardBefore} batches; over the link went ` +
      `${after.out_msgs - before.out_msgs} messages with ${after.out_bytes - before.out_bytes} bytes, and ${after.in_msgs - before.in_msgs} came back`,
  )

  const revoked: number[] = []
  for (let index = 0; index < revocations; index++) {
    const connection = await joined(`edge-gone-${index}`)
    revoked.push(await untilClosed(connection, () => fleet.nodes('revoke', `edge-gone-${index}`)))
  }
  console.log(
    `a revoked node's connection at the leaf server was closed after the start of the command: ${quantiles(revoked)}`,
  )

  const late = await joined('edge-late')
  await region.cut()
  const lateClosed = untilClosed(late, () => fleet.nodes('revoke', 'edge-late'))
  const cutAt = performance.now()
  let made = 0
  for (; performance.now() - cutAt < cutSeconds * 1_000; made++) {
    await account('PATCH', edge.uri, { description: `while it was cut off ${made}` })
    await pause(80)
  }
  await newSite('last.example')
  const healedAt = performance.now()
  await region.heal()
  await served('last.example')
  const caughtUp = performance.now() - healedAt
  console.log(
    `the link cut for ${cutSeconds} s with ${made} changes: everything in force ${Math.round(caughtUp)} ms after it was back`,
  )
  await lateClosed
  console.log(
    `a node that was revoked meanwhile lost its connection ${Math.round(performance.now() - healedAt)} ms after`,
  )
  return (
    quantile(revoked, 1) < goalMs.revoked * 3 && caughtUp < 60_000 && after.out_msgs - before.out_msgs < changes * 10
  )

  async function joined(name: string) {
    const { folder } = await fleet.joinMachine(await fleet.invite(name, eu))
    const credentials = readCredentials(await readFile(join(folder, 'nats.creds'), 'utf8'))
    return connectWith(scope, leaf, credentials, { reconnect: false, inboxPrefix: inboxOf(name) })
  }
})

type Connection = Awaited<ReturnType<typeof connectWith>>

async function untilClosed(connection: Connection, revoke: () => Promise<unknown>): Promise<number> {
  const closed = connection.closed().then(() => performance.now())
  const from = performance.now()
  await revoke()
  return (await closed) - from
}
