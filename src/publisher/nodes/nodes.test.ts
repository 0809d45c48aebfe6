import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Msg, MsgCallback, NatsConnection } from '@nats-io/transport-node'
import { defaultCellName } from '../../kernel/edge/cells.ts'
import { liveForMs, watchNodes } from './nodes.ts'

const everywhere = new Set([defaultCellName])

/** Reports as NATS delivers them, at times that the test decides. */
function start() {
  let now = 1_800_000_000_000
  let deliver: MsgCallback<Msg> | undefined
  const nodes = watchNodes(
    () => now,
    () => assert.fail('every report is in order'),
  )
  nodes.listen({
    subscribe: (_: string, { callback }: { callback: MsgCallback<Msg> }) => {
      deliver = callback
    },
  } as unknown as NatsConnection)
  const report = (node: string, applied: number, more: object = {}, prefix = 'gatehouse') => {
    const at = new Date(now).toISOString()
    const text = JSON.stringify({
      ...{ node, version: '0.3.0', startedAt: at, applied, records: 1, refusals: [], hits: [], ...more },
    })
    deliver?.(null, { subject: `${prefix}.reports.${node}`, string: () => text } as Msg)
  }
  return { nodes, report, pass: (ms: number) => (now += ms), at: () => new Date(now).toISOString() }
}
async function isSettled(promise: Promise<unknown>): Promise<boolean> {
  let settled = false
  void promise.then(() => (settled = true))
  await null
  return settled
}

test('a wait ends with the report of the last node that was behind', async () => {
  const { nodes, report } = start()
  for (const node of ['a', 'b', 'c']) report(node, 6)
  const waiting = nodes.waitFor(7, everywhere, 60_000)
  report('a', 7)
  report('c', 8)
  report('a', 7)
  assert.equal(await isSettled(waiting), false)
  report('b', 7)
  const { live, applied, behind } = await waiting
  assert.deepEqual([live.length, applied.length, behind.length], [3, 3, 0])
})

test('nothing is waited for when every live node has the change, and a refused one counts as behind', async () => {
  const { nodes, report, at, pass } = start()
  report('gone', 1)
  pass(liveForMs + 1)
  report('a', 7)
  assert.equal((await nodes.waitFor(7, everywhere, 60_000)).applied.length, 1)
  report('a', 8, { refusals: [{ key: 'tcp.x', generation: 8, reason: 'no', at: at() }] })
  assert.deepEqual(
    (await nodes.waitFor(8, everywhere, 1)).behind.map(({ node }) => node),
    ['a'],
  )
})

test('a node that falls silent is not waited for, and one that appears meanwhile is', async () => {
  const { nodes, report, pass } = start()
  report('silent', 1)
  report('a', 6)
  const waiting = nodes.waitFor(7, everywhere, 60_000)
  report('new', 6)
  report('a', 7)
  pass(liveForMs + 1)
  report('a', 7)
  assert.equal(await isSettled(waiting), true, 'both others have been silent for too long')

  report('new', 6)
  const again = nodes.waitFor(7, everywhere, 60_000)
  report('a', 7)
  assert.equal(await isSettled(again), false)
  report('new', 7)
  assert.equal((await again).applied.length, 2)
})

test('only nodes of the cells that get the change are waited for', async () => {
  const { nodes, report } = start()
  const inCell = (cell: string, node: string, applied: number) => report(node, applied, {}, `gatehouse.cell.${cell}`)
  report('a', 7)
  inCell('eu', 'e', 6)
  inCell('us', 'u', 6)
  assert.equal((await nodes.waitFor(7, everywhere, 60_000)).applied.length, 1)
  const waiting = nodes.waitFor(7, new Set(['default', 'eu']), 60_000)
  inCell('us', 'u', 7)
  assert.equal(await isSettled(waiting), false)
  inCell('eu', 'e', 7)
  assert.deepEqual(
    (await waiting).applied.map(({ node, cell }) => `${cell}/${node}`),
    ['default/a', 'eu/e'],
  )
})
