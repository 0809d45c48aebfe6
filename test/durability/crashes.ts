import { freePort } from '../../dev/ports.ts'
import { startPostgres } from '../../dev/postgres.ts'
import { type ControlPlane, type Scope, startControlPlane, stop } from '../harness/control_plane.ts'
import { createMigratedDatabase } from '../harness/environment.ts'
import { pause, poll } from '../harness/poll.ts'
import { random } from '../harness/random.ts'
import { ledgerFaults } from './audit.ts'
import { type Ledger, newLedger, writeLoad } from './ledger.ts'

export type Crashed = { ledger: Ledger; faults: string[] }

/** Two processes that keep their ports, so that a client finds a restarted one where it was. */
async function startPair(scope: Scope, databaseUrl?: string) {
  const env = { GATEHOUSE_DATABASE_TIMEOUT_MS: '10000' }
  const plane = await startControlPlane(scope, {
    processes: 0,
    env,
    databaseUrl,
  })
  const ports = [await freePort(), await freePort()]
  const start = (index: number) => plane.startProcess({ GATEHOUSE_LISTEN: `127.0.0.1:${ports[index]}` })
  return { plane, start, running: [await start(0), await start(1)] }
}

const waitUntil = (isSo: () => boolean) => poll(isSo, Boolean, { everyMs: 5 })

async function underLoad(plane: ControlPlane, crash: (ledger: Ledger) => Promise<void>): Promise<Crashed> {
  const ledger = newLedger()
  const admin = await plane.newAccount()
  // The schema and the account must survive: only changes in the ledger are at stake.
  await plane.db.query({ text: 'checkpoint' })
  let over = false
  const load = writeLoad(admin, ledger, () => over)
  try {
    await Promise.race([crash(ledger), load])
  } finally {
    over = true
  }
  await load
  return { ledger, faults: await ledgerFaults(plane.db, admin.accountId, ledger) }
}

/** `kill -9` of one of two processes while requests are under way in it, `times` over, each restarted. */
export async function crashProcesses(scope: Scope, times: number): Promise<Crashed> {
  const { plane, start, running } = await startPair(scope)
  return underLoad(plane, async (ledger) => {
    for (let round = 0; round < times; round++) {
      const index = round % 2
      await pause(200 + random() * 100)
      const victim = running[index]
      await waitUntil(() => ledger.inFlight[index] !== 0)
      if (victim) await stop(victim.child, 'SIGKILL')
      running[index] = await start(index)
    }
  })
}

/** `kill -9` of PostgreSQL, all of it, while it writes, `times` over, each restarted on what it left. */
export async function crashPostgres(
  scope: Scope,
  { times, flags }: { times: number; flags?: string[] },
): Promise<Crashed> {
  const postgres = await startPostgres({ flags })
  scope.after(() => postgres.stop())
  const { plane } = await startPair(scope, await createMigratedDatabase(postgres, 't_crashed'))
  return underLoad(plane, async (ledger) => {
    for (let round = 0; round < times; round++) {
      const before = ledger.acknowledged.size
      // Until it works again, and then a while: killing a server without writes proves nothing.
      await waitUntil(() => ledger.acknowledged.size >= before + 100)
      await pause(random() * 200)
      await postgres.kill()
      await postgres.restart()
    }
    const before = ledger.acknowledged.size
    await waitUntil(() => ledger.acknowledged.size >= before + 20)
  })
}

/** Commits are answered before they are on disk, and nothing writes them there for a while. */
export const acknowledgingTooEarly = [
  '-c',
  'synchronous_commit=off',
  '-c',
  'wal_writer_delay=10s',
  '-c',
  'wal_writer_flush_after=1GB',
]

export const figuresOf = ({ ledger, faults }: Crashed): string =>
  `${ledger.acknowledged.size} changes acknowledged, ${ledger.unanswered} without a clear answer, ` +
  `${ledger.refused} refused; ${faults.length} faults`
