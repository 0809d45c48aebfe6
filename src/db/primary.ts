import pg from 'pg'
import { nameOf, type Server } from '../kernel/database_url.ts'
import { pause } from '../kernel/flow/pause.ts'
import { isWrongDatabase } from './failures.ts'

/** How often the primary is asked whether it still answers. */
const watchEveryMs = 1_000
/** A server that does not answer for this long is looked for elsewhere. */
const answerWithinMs = 2_000
/** While no server accepts changes, all of them are asked this often. */
const lookEveryMs = 500

type Parameter = { parameterName: string; parameterValue: string }
type Internals = {
  host: string
  port: number
  connection: {
    on(event: 'parameterStatus', listener: (message: Parameter) => void): void
    stream: { destroy(): void }
  }
}
const internalsOf = (client: pg.Client) => client as unknown as Internals

/** PostgreSQL reports these two when a session begins, and when they change. */
function watchWritability(client: pg.Client): () => boolean {
  const on = new Set<string>()
  internalsOf(client).connection.on('parameterStatus', ({ parameterName: name, parameterValue: value }) => {
    if (name !== 'in_hot_standby' && name !== 'default_transaction_read_only') return
    if (value === 'on') on.add(name)
    else on.delete(name)
  })
  return () => on.size === 0
}

class NotPrimary extends Error {
  /** A SQLSTATE, for failures.ts: the server only reads. */
  readonly code = '25006'
}
class NoPrimary extends Error {
  /** As a host that cannot be reached: nothing was sent. */
  readonly code = 'ECONNREFUSED'
}

type Found = { server: Server; client: pg.Client; history: History }
/** PostgreSQL counts a timeline with every promotion. */
type History = { system: string; timeline: number }

/**
 * Finds which of several servers accepts changes, as libpq does for `target_session_attrs=read-write`, and notices when that
 * changes: connections to a server that is frozen or cut off stay open, and each would hold up a request until its time-out.
 * So one connection asks the primary every second. When another server has become the primary, all connections to the old one
 * are closed.
 */
export function followPrimary(servers: readonly Server[], settings: pg.ClientConfig, onError: (error: Error) => void) {
  const open = new Map<pg.Client, Server>()
  const ended = new AbortController()
  let current: Promise<Server> | undefined
  let newest: History | undefined

  async function probe(server: Server): Promise<Found> {
    const client = new pg.Client({
      ...settings,
      connectionTimeoutMillis: answerWithinMs,
      query_timeout: answerWithinMs,
    })
    // Whatever breaks it also fails what is asked of it.
    client.on('error', () => {})
    Object.assign(internalsOf(client), server)
    const isWritable = watchWritability(client)
    try {
      await client.connect()
      if (!isWritable()) throw new NotPrimary('it is a standby, or only reads')
      return { server, client, history: await readHistory(client) }
    } catch (error) {
      close(client)
      throw error
    }
  }

  /** A primary that was replaced may come back, for as long as it takes to notice: it has an older timeline. */
  const isOutdated = ({ system, timeline }: History) => newest?.system === system && timeline < newest.timeline

  async function find(): Promise<Found> {
    const asked = servers.map(async (server) => {
      const found = await probe(server)
      if (!isOutdated(found.history) && !ended.signal.aborted) return found
      close(found.client)
      throw new NotPrimary('another server has been the primary since it was')
    })
    try {
      const first = await Promise.any(asked)
      for (const each of asked) void each.then((other) => other !== first && close(other.client)).catch(() => {})
      newest = first.history
      return first
    } catch (error) {
      throw noPrimary((error as AggregateError).errors)
    }
  }

  function noPrimary(errors: readonly Error[]): Error {
    // With a wrong password, waiting does not help.
    const wrong = errors.find(isWrongDatabase)
    if (wrong) return wrong
    const reasons = errors.map(
      (error, at) => `${nameOf(servers[at] as Server)}: ${error.message || (error as { code?: string }).code}`,
    )
    return new NoPrimary(`no server of PostgreSQL accepts changes: ${reasons.join('; ')}`)
  }

  /** Starts to look, and then to watch. */
  function look(): Promise<Server> {
    const found = find()
    found.then(watch, () => {
      current = undefined
    })
    return found.then(({ server }) => server)
  }

  function closeOthers(than?: Server): void {
    for (const [other, its] of open) if (its !== than) internalsOf(other).connection.stream.destroy()
  }

  async function watch({ server, client }: Found): Promise<void> {
    closeOthers(server)
    try {
      while (!ended.signal.aborted) {
        await pause(watchEveryMs, ended.signal)
        if (!ended.signal.aborted) await client.query('select 1')
      }
    } catch (error) {
      onError(error as Error)
      current = undefined
      close(client)
      await lookUntilFound()
      return
    }
    close(client)
  }

  /**
   * Also without a request: what waits on a connection to the old primary fails when there is another, or when there has been
   * none for as long as a statement may take. A transaction would otherwise wait that long for each of its statements.
   */
  async function lookUntilFound(): Promise<void> {
    const { query_timeout: limitMs = 0 } = settings
    for (const began = performance.now(); !ended.signal.aborted; ) {
      current ??= look()
      if (await current.then(Boolean, () => false)) return
      if (limitMs && performance.now() - began > limitMs) closeOthers()
      await pause(lookEveryMs, ended.signal)
    }
  }

  /** Connects to the primary. */
  class Client extends pg.Client {
    override connect(): Promise<pg.Client>
    override connect(callback: (error: Error) => void): void
    override connect(callback?: (error: Error) => void): Promise<pg.Client> | undefined {
      const connecting = this.connectToPrimary()
      if (!callback) return connecting
      connecting.then(() => (callback as () => void)(), callback)
      return undefined
    }

    private async connectToPrimary(): Promise<pg.Client> {
      if (ended.signal.aborted) throw new Error('Connection terminated')
      current ??= look()
      const server = await current
      open.set(this, server)
      this.once('end', () => open.delete(this))
      Object.assign(internalsOf(this), server)
      const isWritable = watchWritability(this)
      await super.connect()
      if (isWritable()) return this
      close(this)
      throw new NotPrimary(`${nameOf(server)} has become a standby`)
    }
  }

  return { Client, end: () => ended.abort() }
}

async function readHistory(client: pg.Client): Promise<History> {
  const { rows } = await client.query(
    `select (select system_identifier from pg_control_system())::text as system,
            ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int as timeline`,
  )
  return rows[0]
}

/** Not waited for: a server that has gone does not confirm it. */
function close(client: pg.Client): void {
  client.end().catch(() => {})
  internalsOf(client).connection.stream.destroy()
}
