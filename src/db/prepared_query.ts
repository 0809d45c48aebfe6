import pg from 'pg'
import type { Sql } from './sql.ts'

/** What we use of pg beyond its types. prepared_query.test.ts runs all of it: an upgrade that changes it will show. */
type Connection = {
  bind(options: object): void
  execute(options: { portal: string; rows: number }): void
  sync(): void
}
type Field = { name: string; dataTypeID: number; format: 'text' | 'binary' }
type Shape = { readonly names: readonly string[]; readonly parsers: readonly ((text: string) => unknown)[] }
type Internals = {
  callback: (error: unknown, result?: { rows: unknown[] }) => void
  prepare(connection: Connection): void
}

const noColumns: Shape = { names: [], parsers: [] }
/** The columns of a connection's prepared statements, by the name of the statement. */
const shapes = new WeakMap<Connection, Map<string, Shape>>()

const { prepareValue } = (pg as unknown as { utils: { prepareValue: (value: unknown) => unknown } }).utils

/**
 * A statement under its name. pg asks PostgreSQL for the columns at every execution, and makes a result with a parser for
 * each of them; for a prepared statement they do not change, so we ask once for each connection. When a migration changes
 * them, PostgreSQL refuses the statement, as it does for pg's own queries.
 */
export class PreparedQuery extends pg.Query {
  private readonly collected: unknown[] = []
  private shape: Shape | undefined
  private isDescribed = false
  private failure: unknown
  private connection: Connection | undefined

  constructor({ text, values, name }: Sql) {
    // By its text alone: anything else would be copied, key by key.
    super(text)
    Object.assign(this, { values, name })
  }

  prepare(connection: Connection): void {
    this.connection = connection
    const known = shapes.get(connection)?.get(this.statementName)
    if (!known) {
      ;(pg.Query.prototype as unknown as Internals).prepare.call(this, connection)
      return
    }
    this.shape = known
    this.isDescribed = true
    const { values } = this as unknown as { values: unknown[] }
    connection.bind({ portal: '', statement: this.statementName, values, valueMapper: prepareValue })
    connection.execute({ portal: '', rows: 0 })
    connection.sync()
  }

  handleRowDescription({ fields }: { fields: Field[] }): void {
    this.remember({
      names: fields.map(({ name }) => name),
      parsers: fields.map(({ dataTypeID, format }) => pg.types.getTypeParser(dataTypeID, format)),
    })
  }

  handleDataRow({ fields }: { fields: (string | null)[] }): void {
    if (this.failure !== undefined || !this.shape) return
    const { names, parsers } = this.shape
    const row: Record<string, unknown> = {}
    try {
      for (let column = 0; column < names.length; column++) {
        const text = fields[column]
        row[names[column] as string] = text == null ? null : parsers[column]?.(text)
      }
      this.collected.push(row)
    } catch (error) {
      this.failure = error
    }
  }

  handleCommandComplete(): void {
    // A statement that returns nothing has no description either.
    if (!this.shape) this.remember(noColumns)
  }

  handleReadyForQuery(): void {
    const { callback } = this as unknown as Internals
    if (this.failure === undefined) callback(null, { rows: this.collected })
    else callback(this.failure)
  }

  private get statementName(): string {
    return (this as unknown as { name: string }).name
  }

  private remember(shape: Shape): void {
    this.shape = shape
    if (!this.connection || this.isDescribed) return
    const known = shapes.get(this.connection) ?? new Map<string, Shape>()
    known.set(this.statementName, shape)
    shapes.set(this.connection, known)
  }
}

export type Rows = Pick<pg.QueryResult, 'rows'>
export type Queryable = { query: pg.ClientBase['query'] | pg.Pool['query'] }

/** Both a connection and the pool run it, and call back. */
export const prepared = (client: Queryable, statement: Sql): Promise<Rows> =>
  new Promise((resolve, reject) => {
    const query = client.query as (query: PreparedQuery, values: undefined, done: Done) => void
    query.call(client, new PreparedQuery(statement), undefined, (error, result) =>
      error ? reject(error) : resolve(result),
    )
  })
type Done = (error: Error | null, result: Rows) => void
