import type pg from 'pg'
import { prepared, type Rows } from './prepared_query.ts'
import type { Sql } from './sql.ts'

type Shared = {
  /** Undefined before first use and after a failure. */
  client?: Promise<pg.Client>
  /** The connection behind `client`, even while it connects. */
  latest?: pg.Client
  /** Unanswered statements. */
  pending: number
  isCorked: boolean
}

/**
 * A few connections shared by many statements, which do not wait for each other's answers: fewer and larger writes than
 * with one connection each. PostgreSQL answers in order, so a slow statement delays those behind it. Use them only for
 * look-ups of single rows by key, never for a transaction, a lock or a list.
 */
export function openSharedConnections(
  count: number,
  settings: pg.ClientConfig,
  Client: typeof pg.Client,
  onError: (error: Error) => void,
) {
  const all: Shared[] = Array.from({ length: count }, () => ({ pending: 0, isCorked: false }))
  let isEnding = false

  const connect = async (shared: Shared): Promise<pg.Client> => {
    const client = new Client({ ...settings, pipeline: true } as pg.ClientConfig)
    // `end` of an old client may follow its `error` when its successor is already connected.
    const forget = () => {
      if (shared.latest === client) shared.client = undefined
    }
    shared.latest = client
    client.on('error', (error) => {
      forget()
      onError(error)
    })
    client.once('end', forget)
    try {
      await client.connect()
    } catch (error) {
      forget()
      throw error
    }
    return client
  }

  const leastBusy = (): Shared => all.reduce((least, each) => (each.pending < least.pending ? each : least))

  return {
    async query(statement: Sql): Promise<Rows> {
      if (isEnding) throw new Error('Connection terminated')
      const shared = leastBusy()
      shared.pending++
      try {
        shared.client ??= connect(shared)
        const client = await shared.client
        if (shared.pending > 1) gatherWrites(shared, client)
        return await prepared(client, statement)
      } finally {
        shared.pending--
      }
    },
    pending: (): number => all.reduce((sum, { pending }) => sum + pending, 0),
    async end(): Promise<void> {
      isEnding = true
      const clients = await Promise.allSettled(all.flatMap(({ client }) => client ?? []))
      await Promise.all(clients.map((each) => each.status === 'fulfilled' && each.value.end()))
    },
  }
}

/** Combines the statements of one event-loop turn into one write. An idle connection sends immediately. */
function gatherWrites(shared: Shared, client: pg.Client): void {
  if (shared.isCorked) return
  shared.isCorked = true
  const { stream } = (client as unknown as { connection: { stream: { cork(): void; uncork(): void } } }).connection
  stream.cork()
  setImmediate(() => {
    shared.isCorked = false
    stream.uncork()
  })
}
