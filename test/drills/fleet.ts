// `npm run drill -- fleet <nodes> <cells> <accounts> <edges> <changes> <seconds>`: 1,000 nodes in 20 cells: when a change is in
// force, what it costs, and how soon all nodes are back after a restart, and after NATS was away for so many seconds. The
// nodes are agents as they are, 250 in a process, with a disk and no HAProxy behind them; every fourth cell has a real one.
// The edges are written into the tables, and reach their cell when their account is placed there.
import { readFileSync } from 'node:fs'
import { type DbPool, run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { transaction } from '../../src/db/transaction.ts'
import { newNatsOperator } from '../../src/fleet/nats_accounts.ts'
import { type Id, newUuid, toId, toUuid, type Uuid } from '../../src/kernel/ids.ts'
import { type Cell, listCells, placeAccount } from '../../src/operations/placement.ts'
import { type Joining, startJoining } from '../fleet/joining.ts'
import { startOperatorNatsCluster } from '../fleet/operator_nats.ts'
import { joinSimulated, type SimulatedNodes, startSimulated } from '../fleet/simulated.ts'
import type { Account } from '../harness/control_plane.ts'
import { drill } from '../harness/drill.ts'
import { pause } from '../harness/poll.ts'
import { createCells } from '../harness/publishers.ts'
import { quantile, quantiles } from '../harness/quantiles.ts'

const [nodeCount = 1_000, cellCount = 20, accountCount = 1_000, edgeCount = 100_000, changes = 200, awaySeconds = 60] =
  process.argv.slice(2).map(Number)
const idleSeconds = 30
const changesPerSecond = 10
const goalMs = 150

type Tenant = { as: Account; cell: Cell; edges: Uuid[] }

await drill(async (scope) => {
  const { operator } = newNatsOperator(Date.now())
  const starting = startOperatorNatsCluster(scope, operator)
  const fleet = await startJoining(scope, { nats: starting, operator })
  const nats = await starting
  const [first] = fleet.processes
  const second = await fleet.startProcess()
  if (!first) return false
  await fleet.untilReady()
  await createCells(fleet.db, cellCount - 1)
  const cells = await listCells(fleet.db)
  const tenants = await newTenants(fleet, cells)
  console.log(`${accountCount} accounts with ${edgeCount} edges in ${cells.length} cells`)

  const joining = performance.now()
  const folders = await joinSimulated(fleet, nodeCount, (index) => ({ cell: cells[index % cells.length] }))
  console.log(`${nodeCount} nodes joined in ${secondsSince(joining)} s`)
  let nodes = await startSimulated(scope, folders)
  for (const cell of cells.filter((_, index) => index % 4 === 0)) await startRealNode(fleet, cell)
  const began = performance.now()
  await nodes.allReady()
  console.log(`${nodeCount} nodes have joined and read their cell ${secondsSince(began)} s after the last had joined`)

  const uses: Record<string, () => number> = {
    nodes: () => nodes.pids().reduce((sum: number, pid) => sum + processorMs(pid), 0),
    'control plane': () => [first, second].reduce((sum, { child }) => sum + processorMs(child.pid), 0),
    NATS: () => nats.nodes.reduce((sum, { pid }) => sum + processorMs(pid), 0),
  }
  const idle = await measured(uses, () => pause(idleSeconds * 1_000))
  const perSecond = Object.entries(idle).map(([who, ms]) => `${who} ${(ms / idleSeconds / nodeCount).toFixed(2)}`)
  console.log(`idle, in ms of processor time per second and node: ${perSecond.join(', ')}`)
  console.log(`memory: nodes ${megabytes(nodes.pids())} MB, control plane ${megabytes([first.child.pid])} MB`)

  const times: number[] = []
  const changing = performance.now()
  const busy = await measured(uses, async () => {
    for (let index = 0; index < changes; index++) {
      const from = performance.now()
      times.push(await changeOne(nodes, pick(tenants, index), `change-${index}`))
      await pause(Math.max(0, 1_000 / changesPerSecond - (performance.now() - from)))
    }
  })
  const busySeconds = (performance.now() - changing) / 1_000
  const perChange = Object.entries(busy).map(([who, ms]) => {
    const more = ms - ((idle[who] ?? 0) * busySeconds) / idleSeconds
    return `${who} ${(more / changes / (nodeCount / cellCount)).toFixed(2)}`
  })
  console.log(
    `${changes} changes in ${busySeconds.toFixed(0)} s, in force on all nodes of their cell: ${quantiles(times)}`,
  )
  console.log(`in ms of processor time per change and node of its cell: ${perChange.join(', ')}`)

  await nodes.kill()
  const restarted = performance.now()
  nodes = await startSimulated(scope, folders)
  await nodes.allReady()
  console.log(`all nodes restarted at once: full state again after ${secondsSince(restarted)} s`)
  const after = await measured(uses, () => pause(60_000))
  console.log(`the minute after it, of the steady load: ${ratios(after, idle, 60 / idleSeconds)}`)

  await Promise.all(nats.nodes.map((server) => server.stop('SIGKILL')))
  let generation = 0
  for (let index = 0; index < awaySeconds * changesPerSecond; index++) {
    generation = await patch(pick(tenants, index), `away-${index}`)
    await pause(1_000 / changesPerSecond)
  }
  await nats.restart()
  const back = performance.now()
  const [tenant] = tenants
  if (!tenant) return false
  const all = await Promise.all(cells.map((cell) => nodes.applied(cell.name, generation)))
  console.log(
    `NATS away for ${awaySeconds} s with ${changesPerSecond} changes a second: all caught up ${secondsSince(back)} s after`,
  )
  console.log(`${await nodes.errors()} errors in the logs of the nodes`)
  return all.length === cells.length && quantile(times, 0.99) < goalMs
})

function pick(tenants: readonly Tenant[], index: number): Tenant {
  return tenants[(index * 7) % tenants.length] as Tenant
}
function secondsSince(moment: number): string {
  return ((performance.now() - moment) / 1_000).toFixed(1)
}

async function newTenants(fleet: Joining, cells: readonly Cell[]): Promise<Tenant[]> {
  const tenants: Tenant[] = []
  for (let index = 0; index < accountCount; index++) {
    const [as, cell] = [await fleet.newAccount(), cells[index % cells.length] as Cell]
    const accountId = toUuid(as.accountId as Id<'ac'>)
    const edges = Array.from({ length: Math.ceil(edgeCount / accountCount) }, () => newUuid())
    await insertEdges(fleet.db, accountId, edges)
    await transaction(fleet.db, (tx) => placeAccount(tx, accountId, [cell]))
    tenants.push({ as, cell, edges })
  }
  return tenants
}

async function insertEdges(db: DbPool, accountId: Uuid, edges: readonly Uuid[]): Promise<void> {
  await run(
    db,
    sql`insert into edges (account_id, id, kind) select ${accountId}, id, 'https' from unnest(${edges}::uuid[]) id`,
  )
  await run(
    db,
    sql`insert into hostports (hostport, account_id, edge_id, position)
    select 'h' || id || '.example:443', ${accountId}, id, 0 from unnest(${edges}::uuid[]) id`,
  )
}

async function startRealNode(fleet: Joining, cell: Cell): Promise<void> {
  const machine = await fleet.joinMachine(await fleet.invite(`real-${cell.name}`, cell))
  if (machine.code !== 0) throw new Error(machine.stderr)
  await fleet.startJoined(machine)
}

/** Milliseconds from the request until all nodes of the cell have the change. */
async function changeOne(nodes: SimulatedNodes, tenant: Tenant, name: string): Promise<number> {
  const from = performance.timeOrigin + performance.now()
  const generation = await patch(tenant, name)
  return (await nodes.applied(tenant.cell.name, generation)) - from
}

async function patch({ as, edges }: Tenant, name: string): Promise<number> {
  const [edge] = edges
  const answer = await as('PATCH', `/edges/https/${toId('edghts', edge as Uuid)}`, {
    hostports: [`${name}.${edge}.example:443`],
  })
  if (answer.status !== 200) throw new Error(answer.text)
  return Number(answer.headers.get('service-generation'))
}

/** What a process has used so far. Linux counts in hundredths of a second. */
function processorMs(pid: number | undefined): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'latin1')
    .replace(/^.*\) /, '')
    .split(' ')
  return (Number(fields[11]) + Number(fields[12])) * 10
}

function megabytes(pids: readonly (number | undefined)[]): number {
  const sizes = pids.map((pid) => Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]))
  return Math.round(sizes.reduce((sum, size) => sum + size, 0) / 1_024)
}

type Used = Record<string, number>
async function measured(uses: Record<string, () => number>, work: () => Promise<void>): Promise<Used> {
  const read = () => Object.entries(uses).map(([who, used]) => [who, used()] as const)
  const before = new Map(read())
  await work()
  return Object.fromEntries(read().map(([who, used]) => [who, used - (before.get(who) ?? 0)]))
}

function ratios(after: Used, before: Used, times: number): string {
  return Object.entries(after)
    .map(([who, ms]) => `${who} ${(ms / ((before[who] ?? 0) * times)).toFixed(2)}`)
    .join(', ')
}
