// What every rehearsal has: clients with a ledger, and what must be so when it is over.
import { ledgerFaults, nodeFaults } from './checks.ts'
import { type Call, clientOf } from './client.ts'
import { type Cluster, type Database, shared } from './cluster.ts'
import { untilStandby } from './faults.ts'
import { figures, type Ledger, newLedger, work } from './ledger.ts'
import { startProbes } from './probes.ts'
import { poll } from './wait.ts'

export type Rehearsal = (cluster: Cluster, forMs: number) => Promise<string[]>

export const apiOf = (cluster: Cluster): Call => clientOf(`https://${shared}`, cluster.token)

/** The load of a rehearsal on one ledger, and everything that must be so when it is over. */
export async function underLoad(
  cluster: Cluster,
  faults: (ledger: Ledger) => Promise<void>,
  { check = true, calls = [apiOf(cluster)], workers = 8 } = {},
): Promise<{ ledger: Ledger; faults: string[] }> {
  const api = apiOf(cluster)
  await bothNodes(api)
  await untilStandby(cluster)
  const ledger = await newLedger(api)
  const probes = startProbes(cluster)
  let isOver = false
  const load = work(calls, ledger, () => isOver, workers)
  try {
    await Promise.race([faults(ledger), load])
  } finally {
    isOver = true
  }
  await load
  await untilStandby(cluster)
  const { faults: probed, figures: probeFigures } = await probes.end()
  console.log(`   ${figures(ledger)}\n   ${probeFigures}`)
  const found = [
    ...(await ledgerFaults(cluster, api, ledger)),
    ...probed,
    ...(check ? await nodeFaults(cluster, api, ledger) : []),
  ]
  if (check && found.length === 0) {
    const routes = ledger.entries.filter(({ value }) => value !== null).length
    console.log(
      `   every change has its audit event and outbox row; both nodes serve all ${routes} routes as the database has them`,
    )
  }
  await deleteEdge(api, ledger)
  return { ledger, faults: found }
}

export const bothNodes = (api: Call) =>
  poll(
    () =>
      api('GET', '/edge_nodes').then(
        ({ body }) => body?.edge_nodes ?? [],
        () => [],
      ),
    (nodes: { live: boolean }[]) => nodes.filter(({ live }) => live).length === 2,
    { withinSeconds: 90, everyMs: 500 },
  )

/** Its host name is wanted by the next rehearsal. */
export async function deleteEdge(api: Call, { edgeId }: Ledger): Promise<void> {
  await poll(
    () =>
      api('DELETE', `/edges/https/${edgeId}`).then(
        ({ status }) => status,
        () => 0,
      ),
    (status) => status === 204 || status === 404,
    { everyMs: 500 },
  )
}

/** Until so many more changes are acknowledged. */
export async function progress(ledger: Ledger, count = 30, withinSeconds = 120): Promise<void> {
  const before = ledger.acknowledged.length
  await poll(
    () => ledger.acknowledged.length,
    (now) => now >= before + count,
    { withinSeconds },
  )
}

/** Resolves to a fault if none was found. Nodes have changes that the database has lost, as after a restore. */
export async function afterLoss(cluster: Cluster, ledger: Ledger): Promise<string[]> {
  const api = apiOf(cluster)
  await bothNodes(api)
  const found = await ledgerFaults(cluster, api, ledger)
  console.log(`   ${figures(ledger)}\n   ${found.length} faults found, as there must be, such as:`)
  for (const fault of found.slice(0, 2)) console.log(`     ${fault}`)
  cluster.command('after-restore')
  await deleteEdge(api, ledger)
  return found.some((fault) => fault.startsWith('lost: ')) ? [] : ['the control found no loss']
}

export async function isPrimary(cluster: Cluster, name: Database): Promise<boolean> {
  const client = await cluster.onSocket(name)
  const rows = await client?.query('select pg_is_in_recovery() as standby').then(
    (result) => result.rows,
    () => undefined,
  )
  void client?.end().catch(() => {})
  return rows?.[0]?.standby === false
}
