import { readFileSync, statSync } from 'node:fs'
import { one, openPool } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { type ControlPlane, callersOf, type LogLine, type Scope, startControlPlane } from './control_plane.ts'
import { behindProxy } from './ip.ts'

type Shared = { databaseUrl: string; processes: { origin: string; port: number; logFile: string }[] }
export type SharedControlPlane = Pick<ControlPlane, 'db' | 'clientFor' | 'newAccount'> &
  Shared & {
    defects: () => LogLine[]
    /** A TCP port belongs to one account: this one to no account yet. */
    freshTcpPort: () => Promise<number>
  }

const variable = 'GATEHOUSE_TEST_SHARED_CONTROL_PLANE'

/**
 * Two processes of `gatehouse serve` that all test files of the run call, behind a proxy, as `behindProxy` says. Accounts are
 * isolated from each other, so a test that stays within accounts of its own (`newAccount`) and names of its own (`freshHost`,
 * `freshTcpPort`) cannot tell. Tests that need settings, restarts, or a whole database to themselves use `startControlPlane`.
 */
export async function sharedControlPlane(scope: Scope): Promise<SharedControlPlane> {
  const { databaseUrl, processes: both }: Shared = JSON.parse(process.env[variable] ?? '{}')
  if (!both) throw new Error(`${variable} is not set: run_files.ts sets it for files that name sharedControlPlane`)
  // Not all files may have the same first process: it would have more to do than the other.
  const processes = process.pid % 2 === 0 ? both : both.toReversed()
  const db = openPool({ url: databaseUrl, poolSize: 4, connectTimeoutMs: 60_000, statementTimeoutMs: 60_000 }, () => {})
  scope.after(() => db.end())
  const began = processes.map(({ logFile }) => statSync(logFile).size)
  /** Since this file began, including those that another file caused: the log does not say whose request it was. */
  const defects = () =>
    processes.flatMap(({ logFile }, index) => defectsIn(readFileSync(logFile).subarray(began[index]).toString()))
  const freshTcpPort = async () =>
    (await one<{ port: number }>(db, sql`select nextval('test_tcp_ports')::int as port`)).port
  return { databaseUrl, processes, db, ...callersOf(processes, db), defects, freshTcpPort }
}

/** For the runner. Resolves to a function that stops it, and resolves to what it logged as defects. */
export async function startSharedControlPlane(): Promise<() => Promise<LogLine[]>> {
  const cleanUps: (() => Promise<void>)[] = []
  const scope = { after: (cleanUp: () => Promise<void>) => cleanUps.push(cleanUp) }
  const { databaseUrl, processes } = await startControlPlane(scope, {
    processes: 2,
    env: behindProxy,
    prepare: (db) => db.query({ text: 'create sequence test_tcp_ports start 21000' }),
  })
  const shared: Shared = {
    databaseUrl,
    processes: processes.map(({ origin, port, logFile }) => ({ origin, port, logFile })),
  }
  process.env[variable] = JSON.stringify(shared)
  return async () => {
    const ended = processes.filter(({ child }) => child.exitCode !== null || child.signalCode !== null)
    for (const cleanUp of cleanUps) await cleanUp()
    return [
      ...ended.map(({ origin }) => ({ level: 'fatal', msg: `${origin} ended before the tests did` })),
      ...processes.flatMap(({ logFile }) => defectsIn(readFileSync(logFile, 'utf8'))),
    ]
  }
}

export const isDefect = ({ level, status }: LogLine) => level === 'error' || level === 'fatal' || Number(status) >= 500

/** Most lines are not even parsed: they say nothing of the kind. */
const defectsIn = (log: string): LogLine[] =>
  log
    .split('\n')
    .filter((line) => /"level":"(error|fatal)"|"status":5/.test(line))
    .map((line): LogLine => JSON.parse(line))
    .filter(isDefect)
