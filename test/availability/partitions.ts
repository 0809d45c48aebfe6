// Pairs of machines that cannot reach each other.
import { random, randomBelow } from '../harness/random.ts'
import { nodeFaults } from './checks.ts'
import type { Cluster, Name } from './cluster.ts'
import { type Ledger, newLedger, work } from './ledger.ts'
import { apiOf, bothNodes, deleteEdge, progress, type Rehearsal, underLoad } from './load.ts'
import { pause } from './wait.ts'

const seconds = (ms: number): string => `${(ms / 1_000).toFixed(1)} s`

export const partitions: Rehearsal = async (cluster, forMs) => {
  const names = Object.keys(cluster.machines) as Name[]
  const cuts: { what: string; from: number; to: number }[] = []
  const { ledger, faults } = await underLoad(cluster, async (ledger) => {
    for (const until = Date.now() + forMs; Date.now() < until; ) {
      const one = names[randomBelow(names.length)] as Name
      const rest = names.filter((name) => name !== one)
      const two = rest[randomBelow(rest.length)] as Name
      const from = Date.now()
      cluster.machines[one].cut([cluster.machines[two]])
      await pause(3_000 + random() * 12_000)
      cluster.machines[one].heal()
      cuts.push({ what: `${one} from ${two}`, from, to: Date.now() })
      if (random() < 0.5) await progress(ledger, 10, 120)
    }
  })
  const { ms, at } = ledger.slowest
  const during = cuts.filter(({ from, to }) => from < at && to > at - ms)
  const told = during.map(
    ({ what, from, to }) => `${what} for ${seconds(to - from)}, from ${seconds(from - at + ms)} on`,
  )
  console.log(`   ${cuts.length} partitions between two machines, of 3 to 15 s
   during the slowest answer: ${told.join('; ') || 'none'}`)
  return faults
}

/** While a partition between an edge node and NATS lasts, the node is not equal to the database: that must be noticed. */
export const controlOfPartitions: Rehearsal = async (cluster) => {
  const api = apiOf(cluster)
  await bothNodes(api)
  const ledger = await newLedger(api)
  const { machines } = cluster
  machines['edge-1'].cut([machines['data-1'], machines['data-2'], machines['data-3']])
  try {
    await loaded(cluster, ledger, () => progress(ledger, 50))
    const found = await nodeFaults(cluster, api, ledger)
    console.log(`   with a partition that lasts: ${found[0]?.slice(0, 100) ?? 'nothing found'}`)
    return found.length > 0 ? [] : ['the control found a node that is cut off from NATS equal to the database']
  } finally {
    machines['edge-1'].heal()
    await deleteEdge(api, ledger)
  }
}

async function loaded(cluster: Cluster, ledger: Ledger, during: () => Promise<void>): Promise<void> {
  let isOver = false
  const load = work([apiOf(cluster)], ledger, () => isOver)
  try {
    await during()
  } finally {
    isOver = true
  }
  await load
}
