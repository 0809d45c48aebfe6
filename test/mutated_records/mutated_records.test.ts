import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import type { RecordKey, RecordValue } from '../../src/distribution/records.ts'
import { newId } from '../../src/kernel/ids.ts'
import { dial, startTcpUpstream } from '../agent/live_harness.ts'
import { policyFile } from '../agent/proxy_harness.ts'
import type { Scope } from '../harness/control_plane.ts'
import { assertInForce, type LiveNode, startNode } from './live.ts'
import { allMutations, isSound, type Mutation, mutated } from './mutations.ts'
import { checkMutations, faultOf, titleOf } from './pure.ts'
import { type Sample, samplesOf } from './samples.ts'

test('each field of each kind of record, blank, missing, huge or of another type, is refused unless it may be so', () => {
  const faults: string[] = []
  let refusals = 0
  for (const sample of Object.values(samplesOf(0))) {
    assert.deepEqual(faultOf(sample, []), { refused: false })
    for (const mutation of allMutations(sample)) {
      const { refused, fault } = faultOf(sample, [mutation])
      if (refused) refusals++
      if (fault) faults.push(`${titleOf(sample, [mutation])} ${fault}`)
      else if (!refused && !isSound(sample, mutation)) faults.push(`${titleOf(sample, [mutation])} is not refused`)
    }
  }
  assert.deepEqual(faults, [])
  assert.ok(refusals > 2_000, `${refusals} refusals`)
})

test('neither are several of them at once, at random', () => {
  const { refused, faults } = checkMutations(2_000, 1)
  assert.deepEqual(faults, [])
  assert.ok(refused > 1_000, `${refused} refusals`)
})

const copies = 100

test('a node that is sent all of them refuses and reports them, keeps what it had, and takes in what comes next', async (t) => {
  const node = await startNode(t)
  const { edge } = node
  const sets = Array.from({ length: copies }, (_, number) => samplesOf(number, edge.tcpPort))
  const bystander = await startBystander(t, node)
  const sound = (sample: Sample) => ({ key: sample.key, payload: { ...sample, generation: node.nextGeneration() } })
  await node.send([...bystander.records, ...sets.flatMap((all) => Object.values(all))].map(sound))
  await bystander.assertServed()

  const byKind = Object.values(samplesOf(0)).map((sample) => ({
    kind: sample.key.split('.')[0] as keyof (typeof sets)[number],
    left: allMutations(sample),
  }))
  while (byKind.some(({ left }) => left.length > 0)) {
    const cases = byKind.flatMap(({ kind, left }) =>
      left.splice(0, copies).map((mutation, at) => caseOf(node, (sets[at] as (typeof sets)[number])[kind], mutation)),
    )
    const refused = new Set((await node.send(cases)).map(({ key }) => key))
    for (const each of cases) assertTaken(node, each, refused.has(each.key))
    await assertInForce(node)
    await bystander.assertServed()
    await node.send(cases.map(({ sample }) => sound(sample)))
  }
  await assertInForce(node)
  assert.deepEqual([node.errors, edge.troubles], [[], []])
  // Nothing decrypts the certificates here.
  assert.deepEqual([...new Set([...node.refused.keys()].map((key) => key.split('.')[0]))], ['certificate'])
})

type Case = { key: RecordKey; payload: object; sample: Sample; mutation: Mutation; generation: number }

function caseOf(node: LiveNode, sample: Sample, mutation: Mutation): Case {
  const generation = node.nextGeneration()
  const payload = mutated({ ...sample, generation }, [mutation]) as object
  return { key: sample.key, payload, sample, mutation, generation }
}

function assertTaken(node: LiveNode, { key, sample, mutation, generation }: Case, isRefused: boolean): void {
  const title = titleOf(sample, [mutation])
  assert.ok(isRefused || isSound(sample, mutation), `${title} is taken in`)
  if (!isRefused) return
  assert.ok(isDeepStrictEqual(node.known.get(key)?.value, sample.value), `${title} changes what is in force`)
  // What says nothing of its key or generation is reported without them.
  if (mutation.path[0] === 'value') assert.equal(node.refused.get(key)?.generation, generation, `${title} is reported`)
}

/** Another account of the same node. */
async function startBystander(scope: Scope, { edge, agent }: LiveNode) {
  const upstream = await startTcpUpstream(scope)
  const port = edge.tcpPort + 1
  const [account, policy, backend] = [newId('ac'), newId('ipp'), newId('bkdst')]
  const rule = 'allow 127.0.0.2'
  const bytes = policyFile(rule)
  const sample = (key: RecordKey, value: RecordValue): Sample => ({ key, generation: 1, value })
  return {
    records: [
      sample(`policy.${policy}`, {
        ...{ hash: await edge.writePolicyFile(rule), bytes: bytes.length, inline: bytes.toString('base64') },
      }),
      sample(`restrictions.${account}`, { sets: [] }),
      sample(`backend.${backend}`, { host: '127.0.0.1', port: upstream.port, tls: false }),
      sample(`tcp.${newId('edgtcp')}`, {
        ...{ account, hostports: [`bystander.example:${port}`], backend, policies: [policy] },
      }),
    ],
    async assertServed(): Promise<void> {
      assert.ok((agent.state().refused.lowest ?? 1) >= 1, 'a report says which generations are refused')
      assert.deepEqual(await Promise.all([dial(port, '127.0.0.2'), dial(port, '127.0.0.3')]), ['hello', undefined])
    },
  }
}
