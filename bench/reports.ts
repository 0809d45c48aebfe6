// What the reports of all nodes after one change cost the event loop, while requests wait for it with ?wait=applied.
//   node bench/reports.ts

import type { Msg, MsgCallback, NatsConnection } from '@nats-io/transport-node'
import { defaultCell } from '../src/operations/placement.ts'
import { watchNodes } from '../src/publisher/nodes/nodes.ts'

const rounds = 7
const startedAt = new Date().toISOString()
const textOf = (node: string, applied: number) =>
  JSON.stringify({ node, version: '0.3.0', startedAt, applied, records: 100_000, refusals: [], hits: [] })

async function measure(count: number, waiting: number): Promise<number[]> {
  let deliver: MsgCallback<Msg> = () => {}
  const nodes = watchNodes(Date.now, () => {
    throw new Error('a report was dropped')
  })
  nodes.listen({
    subscribe: (_: string, { callback }: { callback: MsgCallback<Msg> }) => {
      deliver = callback
    },
  } as unknown as NatsConnection)
  const names = Array.from({ length: count }, (_, index) => `edge-${index}`)
  const reportAll = (applied: number) => {
    for (const name of names) {
      const text = textOf(name, applied)
      deliver(null, { subject: `gatehouse.reports.${name}`, string: () => text } as Msg)
    }
  }
  const everywhere = new Set([defaultCell.name])
  reportAll(0)
  const took: number[] = []
  for (let generation = 1; generation <= rounds; generation++) {
    const waits = Array.from({ length: waiting }, () => nodes.waitFor(generation, everywhere, 60_000))
    const { user, system } = process.cpuUsage()
    reportAll(generation)
    await Promise.all(waits)
    const after = process.cpuUsage()
    took.push((after.user + after.system - user - system) / 1_000)
  }
  return took.sort((a, b) => a - b)
}

console.log('processor time per change, in ms: median (least to most)')
for (const count of [10, 50, 200, 1_000])
  for (const waiting of [0, 1, 16]) {
    const took = await measure(count, waiting)
    const [least, median, most] = [0, rounds >> 1, rounds - 1].map((index) => took[index]?.toFixed(1))
    console.log(`${count} nodes, ${waiting} waiting: ${median} (${least} to ${most})`)
  }
