// Change sets are applied for a short time while processes and PostgreSQL are killed around their deadlines, and some of them
// are confirmed at the last moment. What is in force in the end is compared with the answers.
import { freePort } from '../../dev/ports.ts'
import { startPostgres } from '../../dev/postgres.ts'
import type { DbPool } from '../../src/db/pool.ts'
import { type Id, toId, toUuid, type Uuid } from '../../src/kernel/ids.ts'
import {
  type Account,
  type ControlPlane,
  type Scope,
  type ServeProcess,
  startControlPlane,
  stop,
} from '../harness/control_plane.ts'
import { createMigratedDatabase } from '../harness/environment.ts'
import { loadScaledTimeout } from '../harness/load_scaled_timeout.ts'
import { pause, poll } from '../harness/poll.ts'
import { random, randomBelow } from '../harness/random.ts'

export type Figures = { trials: number; confirmed: number; reverted: number; latestMs: number; faults: string[] }
/** What happens to the processes and to PostgreSQL at about the deadline. */
const incidents = ['none', 'kill one', 'kill all', 'restart all', 'kill PostgreSQL'] as const

type Trial = {
  readonly admin: Account
  readonly id: Id<'chs'>
  readonly policy: string
  readonly deadline: number
  /** The status of the answer to its confirmation: undefined without one, 0 without an answer. */
  confirmation?: number
  /** When it was first seen to be over. */
  ended?: number
}
type World = {
  readonly plane: ControlPlane
  readonly postgres: { kill: () => Promise<void>; restart: () => Promise<unknown> }
  readonly start: (index: number) => Promise<ServeProcess>
  readonly running: ServeProcess[]
  readonly accounts: readonly Account[]
}
type Options = { rounds: number; trialsPerRound: number; prepare?: (db: DbPool) => Promise<unknown> }

/** As a build whose undo has no effect, although it was tried before: for the control, because a drill that cannot fail shows nothing. */
export const undoWithoutEffect = (db: DbPool) =>
  db.query({
    text: `
      create function public.keep_description() returns trigger language plpgsql as 'begin return old; end';
      create trigger keep_description before update on ip_policies for each row
        when (old.description = 'after' and new.description = 'before' and coalesce(current_setting('gatehouse.dry_run', true), '') = '') execute function public.keep_description()`,
  })

/** As a build that says that it has undone a change, and has not: it is lost with the commit. */
export const undoForShow = (db: DbPool) =>
  db.query({
    text: `
      create function public.lose_description() returns trigger language plpgsql security definer as $$
        begin update ip_policies set description = 'after' where account_id = new.account_id and id = new.id; return null; end $$;
      create constraint trigger lose_description after update on ip_policies deferrable initially deferred for each row
        when (old.description = 'after' and new.description = 'before') execute function public.lose_description()`,
  })

export async function confirmAtRandom(scope: Scope, { rounds, trialsPerRound, prepare }: Options): Promise<Figures> {
  const world = await startWorld(scope, prepare)
  const figures: Figures = { trials: 0, confirmed: 0, reverted: 0, latestMs: 0, faults: [] }
  for (let round = 0; round < rounds; round++) {
    const incident = incidents[round % incidents.length] ?? 'none'
    const trials = await Promise.all(
      Array.from({ length: trialsPerRound }, (_, index) => begin(world.accounts[index % world.accounts.length])),
    )
    const ending = watchEnds(world, trials)
    const [backAt] = await Promise.all([
      happen(world, incident, Math.min(...trials.map(({ deadline }) => deadline))),
      ...trials.filter((_, index) => index % 2 === 0).map(confirmLate),
    ])
    await ending
    for (const trial of trials) await judge(trial, { incident, backAt, figures })
  }
  return figures
}

/** PostgreSQL of its own, and two processes that keep their ports. */
async function startWorld(scope: Scope, prepare: Options['prepare']): Promise<World> {
  const postgres = await startPostgres({})
  scope.after(() => postgres.stop())
  const databaseUrl = await createMigratedDatabase(postgres, 't_confirm')
  const env = { GATEHOUSE_DATABASE_TIMEOUT_MS: '10000' }
  const plane = await startControlPlane(scope, { processes: 0, env, databaseUrl, ...(prepare && { prepare }) })
  const ports = [await freePort(), await freePort()]
  const start = (index: number) => plane.startProcess({ GATEHOUSE_LISTEN: `127.0.0.1:${ports[index]}` })
  const running = [await start(0), await start(1)]
  const accounts = await Promise.all([1, 2, 3].map(() => plane.newAccount()))
  return { plane, postgres, start, running, accounts }
}

async function begin(admin: Account | undefined): Promise<Trial> {
  if (!admin) throw new Error('no account')
  const call = async (path: string, body: object) => {
    const { status, body: answer, text } = await admin('POST', path, body)
    if (status >= 300) throw new Error(text)
    return answer
  }
  const { id: policy } = await call('/ip_policies', { description: 'before' })
  const changes = [{ operation: 'ip_policies.update', parameters: { id: policy }, body: { description: 'after' } }]
  const { id } = await call('/change_sets', { changes })
  const { confirm_by } = await call(`/change_sets/${id}/apply`, { confirm_within_seconds: 2 })
  return { admin, id, policy, deadline: Date.parse(confirm_by) }
}

const until = (moment: number) => pause(Math.max(0, moment - Date.now()))

/** A few long before the deadline, and the others around it. */
async function confirmLate(trial: Trial): Promise<void> {
  await until(trial.deadline - (randomBelow(5) === 0 ? 500 : random() * 60 - 15))
  const path = `/change_sets/${trial.id}/confirm`
  const answer = await trial.admin('POST', path, {}, { process: randomBelow(2) }).catch(() => undefined)
  // 503: whether it was made is unknown.
  trial.confirmation = answer && answer.status < 500 ? answer.status : 0
}

/** Resolves to when a process and PostgreSQL were both there again. */
async function happen(world: World, incident: (typeof incidents)[number], deadline: number): Promise<number> {
  const { postgres, running, start } = world
  await until(deadline - 400 + random() * 600)
  const restart = async (indices: readonly number[], signal: 'SIGKILL' | 'SIGTERM') => {
    await Promise.all(indices.map((index) => running[index] && stop(running[index].child, signal)))
    await pause(random() * 1_000)
    const started = await Promise.all(indices.map(start))
    for (const [position, index] of indices.entries())
      running[index] = started[position] ?? (running[index] as ServeProcess)
  }
  if (incident === 'kill one') await restart([randomBelow(2)], 'SIGKILL')
  if (incident === 'kill all') await restart([0, 1], 'SIGKILL')
  if (incident === 'restart all') await restart([0, 1], 'SIGTERM')
  if (incident === 'kill PostgreSQL') {
    await postgres.kill()
    await pause(random() * 1_000)
    await postgres.restart()
  }
  // One process was there all the time.
  return incident === 'none' || incident === 'kill one' ? deadline : Date.now()
}

/** Directly from the database: it says when it happened, and not when a process that was killed can be asked again. */
async function statesOf({ plane }: World, trials: readonly Trial[]): Promise<Map<string, string>> {
  const { rows } = await plane.db.query({
    text: 'select id, state from change_sets where id = any($1)',
    values: [trials.map(({ id }) => toUuid(id))],
  })
  return new Map((rows as { id: Uuid; state: string }[]).map(({ id, state }) => [toId('chs', id), state]))
}

const watchEnds = (world: World, trials: readonly Trial[]): Promise<unknown> =>
  poll(
    async () => {
      const open = trials.filter(({ ended }) => ended === undefined)
      const states = await statesOf(world, open).catch(() => undefined)
      for (const trial of open) if (states && states.get(trial.id) !== 'applied') trial.ended = Date.now()
      return trials.every(({ ended }) => ended !== undefined)
    },
    Boolean,
    { everyMs: 20 },
  )

const allowedMs = loadScaledTimeout(2_000)

/** A trial that was confirmed has its changes, and one that was not is undone in time: never anything else. */
async function judge(
  trial: Trial,
  { incident, backAt, figures }: { incident: string; backAt: number; figures: Figures },
): Promise<void> {
  const { admin, id, policy, confirmation, deadline, ended = 0 } = trial
  const read = (path: string) =>
    poll(
      () => admin('GET', path).catch(() => undefined),
      (answer) => answer?.status === 200,
    )
  const state: string = (await read(`/change_sets/${id}`))?.body.state
  const description: string = (await read(`/ip_policies/${policy}`))?.body.description
  figures.trials++
  const fault = (text: string) => figures.faults.push(`${incident}, ${id}: ${text}`)
  const isConfirmed = state === 'confirmed'
  if (description !== (isConfirmed ? 'after' : 'before')) fault(`${state}, and its change is ${description}`)
  if (!['confirmed', 'reverted'].includes(state)) fault(`is ${state}`)
  if (confirmation === 200 && !isConfirmed) fault('was undone after a confirmation')
  if (isConfirmed && ![200, 0].includes(confirmation ?? -1)) fault(`is confirmed, and the answer was ${confirmation}`)
  if (isConfirmed) figures.confirmed++
  if (state !== 'reverted') return
  figures.reverted++
  const lateMs = ended - Math.max(deadline, backAt)
  figures.latestMs = Math.max(figures.latestMs, lateMs)
  if (ended < deadline - 20) fault(`was undone ${deadline - ended} ms before its deadline`)
  if (lateMs > allowedMs) fault(`was undone ${lateMs} ms after its deadline or the first process`)
}
