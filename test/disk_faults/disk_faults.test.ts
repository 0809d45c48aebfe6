import assert from 'node:assert/strict'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { dial, newGuardedEdge, startTcpUpstream, wholeFile } from '../agent/live_harness.ts'
import { startInstallation } from '../harness/edge.ts'
import { poll } from '../harness/poll.ts'
import { sized } from '../harness/thorough.ts'
import { startFaultyNode } from './node.ts'
import { runRounds } from './rounds.ts'

const file = wholeFile()
const installation = await startInstallation(file)
const { admin, tcpPorts } = installation
const node = await startFaultyNode(file, installation)
const { port: upstreamPort } = await startTcpUpstream(file)
const always = 10_000
const [allowed, other] = ['127.0.0.2', '127.0.0.3']
const port = tcpPorts.last
let policyId = ''
before(async () => {
  policyId = `${(await newGuardedEdge(admin, port, upstreamPort, `allow ${allowed}`)).policyId}`
})

const setRules = async (...lines: string[]): Promise<number> => {
  const { status, headers, text } = await admin('PUT', `/ip_policies/${policyId}/rules?confirm=true`, undefined, {
    rawBody: lines.join('\n'),
    contentType: 'text/plain',
  })
  assert.equal(status, 200, text)
  return Number(headers.get('service-generation'))
}
const decisions = async () => [await dial(port, allowed), await dial(port, other)]
const shown = async () => (await admin('GET', '/edge_nodes')).body.edge_nodes[0]
const isApplied = async (generation: number): Promise<boolean> =>
  (await admin('GET', `/generations/${generation}`)).body.applied_nodes === 1

test('a change is enforced although the log that it made too long cannot be shortened', async () => {
  await node.leave('SIGHUP')
  await node.lengthenLog()
  const long = (await stat(join(node.folder, 'records.log'))).size
  assert.ok(await node.start({ skip: 0, count: always, path: 'records.log.new' }))
  const generation = await setRules(`allow ${other}`)
  await poll(() => isApplied(generation))
  assert.deepEqual(await decisions(), [undefined, 'hello'])
  await poll(() => node.log.some(({ msg }) => `${msg}`.startsWith('cannot shorten records.log')))
  assert.ok((await stat(join(node.folder, 'records.log'))).size >= long)
  node.heal()
  await node.leave('SIGHUP')
  assert.ok(await node.start())
  await poll(async () => (await stat(join(node.folder, 'records.log'))).size < long)
  assert.deepEqual(await decisions(), [undefined, 'hello'])
})

test('a policy that the disk does not take is not refused: the node is behind, says why, and applies it later', async () => {
  node.fail({ skip: 0, count: always, path: '/policies/', kinds: ['write'] })
  const generation = await setRules(`allow ${allowed}`, 'allow 192.0.2.1')
  const { storage_fault, refusals, rejected_records } = await poll(shown, (now) => now.storage_fault !== null)
  assert.match(storage_fault, /^cannot write [0-9a-f]{64}: no space left on the disk$/)
  assert.deepEqual([refusals, rejected_records], [[], 0])
  assert.equal(await isApplied(generation), false)
  assert.deepEqual(await decisions(), [undefined, 'hello'])
  const metrics = await (await fetch(`${node.statusUrl}/metrics`)).text()
  assert.match(metrics, /^gatehouse_edge_storage_failing 1$/m)
  assert.match(metrics, /^gatehouse_edge_storage_failures_total [1-9]/m)
  node.heal()
  await poll(() => isApplied(generation))
  assert.deepEqual(await decisions(), ['hello', undefined])
  await poll(shown, (now) => now.storage_fault === null)
})

for (const [what, signal, before, now] of [
  ['the agent', 'SIGKILL', allowed, other],
  ['a node, HAProxy included,', 'SIGTERM', other, allowed],
] as const)
  test(`with a full disk ${what} starts, keeps what is in force, and catches up when there is space`, async () => {
    const decided = (from: string) => [allowed, other].map((address) => (address === from ? 'hello' : undefined))
    await node.leave(signal)
    assert.ok(await node.start({ skip: 0, count: always, kinds: ['write'] }))
    const generation = await setRules(`allow ${now}`, `allow 192.0.2.${signal.length}`)
    await poll(shown, ({ storage_fault }) => storage_fault !== null)
    assert.equal(await isApplied(generation), false)
    assert.deepEqual(await decisions(), decided(before))
    node.heal()
    await poll(() => isApplied(generation))
    assert.deepEqual(await decisions(), decided(now))
  })

test('what a node refused is never said to be applied, not after 30 others and not after a restart, until it is replaced', async () => {
  // An older edge of the account has the port, so none of these is reached.
  const late: { uri: string; generation: number }[] = []
  for (let count = 0; count < 30; count++) {
    const { body, headers } = await admin('POST', '/edges/tcp', { hostports: [`late-${count}.example:${port}`] })
    late.push({ uri: body.uri, generation: Number(headers.get('service-generation')) })
  }
  const refused = late.map(({ generation }) => generation)
  const later = await setRules(`allow ${allowed}`)
  await poll(() => isApplied(later))
  await poll(shown, ({ rejected_records }) => rejected_records === 30)
  const check = async () => {
    const { rejected_records, lowest_rejected_generation, refusals } = await poll(shown, (now) => now.live)
    assert.deepEqual([rejected_records, lowest_rejected_generation], [30, refused[0]])
    assert.ok(refusals.length <= 20)
    for (const generation of refused) assert.equal(await isApplied(generation), false, `${generation}`)
    assert.equal(await isApplied(later), true)
  }
  await check()
  await node.leave('SIGKILL')
  assert.ok(await node.start())
  await poll(shown, ({ started_at }) => Date.parse(started_at) > Date.now() - 60_000)
  await check()
  for (const { uri } of late) await admin('DELETE', uri)
  const last = await setRules(`allow ${other}`)
  await poll(() => isApplied(last))
  await poll(shown, ({ rejected_records }) => rejected_records === 0)
  await poll(() => isApplied(refused[0] as number))
})

const rounds = sized(40, 300)
test(`over ${rounds} rounds of failing writes, what a node reports as applied is in force, and nothing is lost`, async () => {
  const { faults, failures, traffic } = await runRounds(installation, { node, upstreamPort }, rounds)
  assert.deepEqual(faults, [])
  assert.ok(failures.size > 5 && traffic > 0, JSON.stringify([...failures]))
})
