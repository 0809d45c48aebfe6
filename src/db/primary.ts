import pg from 'pg'
import { nameOf, type Server } from '../kernel/database_url.ts'
import { pause } from '../kernel/flow/pause.ts'
import { isWrongDatabase } from './failures.ts'

/** How often the primary is checked. */
const watchEveryMs = 1_000
/** A server that does not answer within this time is considered lost. */
const answerWithinMs = 2_000
/** How often all servers are asked while none accepts writes. */
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

/** PostgreSQL reports these two parameters when a session begins and whenever they change. */
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
  /** SQLSTATE of a read-only server, for failures.ts. */
  readonly code = '25006'
}
class NoPrimary extends Error {
  /** Like an unreachable host: nothing was sent. */
  readonly code = 'ECONNREFUSED'
}

type Found = { server: Server; client: pg.Client; history: History }
/** PostgreSQL increments the timeline with every promotion. */
type History = { system: string; timeline: number }

/**
 * Finds the server that accepts writes, like libpq with `target_session_attrs=read-write`, and notices when that
 * changes. Connections to a frozen or isolated server stay open, and each would block a request until its time-out; so
 * one connection checks the primary every second. When another server takes over, all connections to the old one are
 * closed.
 */
class Primary {
  /** Open connections to the current primary or a former one. */
  readonly open = new Map<pg.Client, Server>()
  readonly ended = new AbortController()
  private current: Promise<Server> | undefined
  private newest: History | undefined

  private readonly servers: readonly Server[]
  private readonly settings: pg.ClientConfig
  private readonly onError: (error: Error) => void
  constructor(servers: readonly Server[], settings: pg.ClientConfig, onError: (error: Error) => void) {
    this.servers = servers
    this.settings = settings
    this.onError = onError
  }

  /** Rejects if no server accepts writes. */
  get(): Promise<Server> {
    this.current ??= this.look()
    return this.current
  }

  /** Searches for the primary, then watches it. */
  private look(): Promise<Server> {
    const found = this.find()
    found.then(
      (first) => this.watch(first),
      () => {
        this.current = undefined
      },
    )
    return found.then(({ server }) => server)
  }

  private async find(): Promise<Found> {
    const asked = this.servers.map(async (server) => {
      const found = await probe(server, this.settings)
      if (!this.isOutdated(found.history) && !this.ended.signal.aborted) return found
      close(found.client)
      throw new NotPrimary('another server has been the primary since it was')
    })
    try {
      const first = await Promise.any(asked)
      for (const each of asked) void each.then((other) => other !== first && close(other.client)).catch(() => {})
      this.newest = first.history
      return first
    } catch (error) {
      throw this.noPrimary((error as AggregateError).errors)
    }
  }

  /** A replaced primary may return before it notices that it was replaced; its timeline is older. */
  private isOutdated({ system, timeline }: History): boolean {
    return this.newest?.system === system && timeline < this.newest.timeline
  }

  private noPrimary(errors: readonly Error[]): Error {
    // Waiting does not fix a wrong password.
    const wrong = errors.find(isWrongDatabase)
    if (wrong) return wrong
    const reasons = errors.map(
      (error, at) => `${nameOf(this.servers[at] as Server)}: ${error.message || (error as { code?: string }).code}`,
    )
    return new NoPrimary(`no server of PostgreSQL accepts changes: ${reasons.join('; ')}`)
  }

  private async watch({ server, client }: Found): Promise<void> {
    const { signal } = this.ended
    this.closeOthers(server)
    try {
      while (!signal.aborted) {
        await pause(watchEveryMs, signal)
        if (!signal.aborted) await client.query('select 1')
      }
    } catch (error) {
      this.onError(error as Error)
      this.current = undefined
      close(client)
      await this.lookUntilFound()
      return
    }
    close(client)
  }

  /**
   * Keeps searching even without requests: once another primary exists, or none has existed for a statement's time
   * limit, everything that waits on the old one fails. Otherwise a transaction would wait that long for each of its
   * statements.
   */
  private async lookUntilFound(): Promise<void> {
    const { query_timeout: limitMs = 0 } = this.settings
    for (const began = performance.now(); !this.ended.signal.aborted; ) {
      if (await this.get().then(Boolean, () => false)) return
      if (limitMs && performance.now() - began > limitMs) this.closeOthers()
      await pause(lookEveryMs, this.ended.signal)
    }
  }

  private closeOthers(than?: Server): void {
    for (const [client, server] of this.open) if (server !== than) internalsOf(client).connection.stream.destroy()
  }
}

async function probe(server: Server, settings: pg.ClientConfig): Promise<Found> {
  const client = new pg.Client({ ...settings, connectionTimeoutMillis: answerWithinMs, query_timeout: answerWithinMs })
  // A broken connection also fails its queries, which report the error.
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

/** `Client` connects to the primary. */
export function followPrimary(
  servers: readonly Server[],
  settings: pg.ClientConfig,
  onError: (error: Error) => void,
): { Client: typeof pg.Client; end: () => void } {
  const primary = new Primary(servers, settings, onError)
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
      if (primary.ended.signal.aborted) throw new Error('Connection terminated')
      const server = await primary.get()
      primary.open.set(this, server)
      this.once('end', () => primary.open.delete(this))
      Object.assign(internalsOf(this), server)
      const isWritable = watchWritability(this)
      await super.connect()
      if (isWritable()) return this
      close(this)
      throw new NotPrimary(`${nameOf(server)} has become a standby`)
    }
  }
  return { Client, end: () => primary.ended.abort() }
}

async function readHistory(client: pg.Client): Promise<History> {
  const { rows } = await client.query(
    `select (select system_identifier from pg_control_system())::text as system,
            ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int as timeline`,
  )
  return rows[0]
}

/** Does not wait: a lost server never confirms. */
function close(client: pg.Client): void {
  client.end().catch(() => {})
  internalsOf(client).connection.stream.destroy()
}
