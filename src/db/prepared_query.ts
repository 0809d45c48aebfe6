import pg from 'pg'
import { OutcomeUnknown } from './failures.ts'
import type { Sql } from './sql.ts'

/** What we use of pg beyond its types. prepared_query.test.ts runs all of it: an upgrade that changes it will show. */
type Connection = {
  readonly parsedStatements: Record<string, string>
  readonly submittedNamedStatements: Record<string, string>
  parse(statement: { text: string; name: string }): void
  describe(portal: { type: 'P'; name: string }): void
  bind(options: object): void
  execute(options: { portal: string; rows: number }): void
  sync(): void
  on(event: 'notice', listener: (notice: { code?: string; message?: string }) => void): void
}
type Field = { name: string; dataTypeID: number; format: 'text' | 'binary' }
type Shape = {
  readonly names: readonly string[]
  readonly parsers: readonly ((text: string) => unknown)[]
  /** A row of nulls: a copy of it has room for all columns, where a row that grows by one at a time is moved several times. */
  readonly empty: Readonly<Record<string, unknown>>
}
type WithSettings = { connectionParameters: { query_timeout?: number } }
type Internals = {
  callback: (error: unknown, result?: { rows: unknown[]; results: unknown[][] }) => void
}

const noColumns: Shape = { names: [], parsers: [], empty: {} }
/** The columns of a connection's prepared statements, by the name of the statement. */
const shapes = new WeakMap<Connection, Map<string, Shape>>()

/**
 * PostgreSQL answers with success and only a warning when the wait for a synchronous standby is canceled: the change is
 * committed on the primary, and a failover may lose it.
 */
const canceledStandbyWait = '01000'
/** What it has said of the statements that are under way on a connection. */
const standbyWarnings = new WeakMap<Connection, string>()

function listenForWarnings(connection: Connection): void {
  connection.on('notice', ({ code, message = '' }) => {
    if (code === canceledStandbyWait) standbyWarnings.set(connection, message)
  })
}

const { prepareValue } = (pg as unknown as { utils: { prepareValue: (value: unknown) => unknown } }).utils

/**
 * Statements under their names, sent in one write and answered together. PostgreSQL runs them one after the other, each
 * with its own snapshot and its own time limit, and when one fails it skips those behind it: so `begin` can be the first of
 * them, and `commit` the last.
 *
 * pg asks PostgreSQL for the columns at every execution, and makes a result with a parser for each of them; for a prepared
 * statement they do not change, so we ask once for each connection. When a migration changes them, PostgreSQL refuses the
 * statement, as it does for pg's own queries.
 */
export class PreparedQuery extends pg.Query {
  /** What it said of the last of them: `COMMIT`, `INSERT 0 1`. */
  lastTag = ''
  private completed = 0
  private readonly statements: readonly Sql[]
  private readonly results: unknown[][] = []
  private collected: unknown[] = []
  private shape: Shape | undefined
  private failure: unknown
  private connection: Connection | undefined

  /** `client`: where several will run. Each has the time that its settings give to one. */
  constructor(statements: readonly Sql[], client?: object) {
    // By its text alone: anything else would be copied, key by key.
    super((statements[0] as Sql).text)
    this.statements = statements
    const { query_timeout = 0 } = (client as WithSettings | undefined)?.connectionParameters ?? {}
    if (query_timeout) Object.assign(this, { query_timeout: query_timeout * statements.length })
    this.takeTurn()
  }

  /** How many of the statements PostgreSQL has not completed. */
  get remaining(): number {
    return this.statements.length - this.completed
  }

  prepare(connection: Connection): void {
    this.connection = connection
    if (!shapes.has(connection)) {
      shapes.set(connection, new Map())
      listenForWarnings(connection)
    }
    for (const { text, name, values } of this.statements) {
      const known = shapes.get(connection)?.has(name)
      if (!known && !isParsed(connection, name)) {
        connection.parse({ text, name })
        connection.submittedNamedStatements[name] = text
      }
      connection.bind({ portal: '', statement: name, values, valueMapper: prepareValue })
      if (!known) connection.describe({ type: 'P', name: '' })
      connection.execute({ portal: '', rows: 0 })
    }
    connection.sync()
    this.shape = this.knownShape()
  }

  handleRowDescription({ fields }: { fields: Field[] }): void {
    const names = fields.map(({ name }) => name)
    this.remember({
      names,
      empty: Object.fromEntries(names.map((name) => [name, null])),
      parsers: fields.map(({ dataTypeID, format }) => pg.types.getTypeParser(dataTypeID, format)),
    })
  }

  handleDataRow({ fields }: { fields: (string | null)[] }): void {
    if (this.failure !== undefined || !this.shape) return
    const { names, parsers, empty } = this.shape
    const row: Record<string, unknown> = { ...empty }
    try {
      for (let column = 0; column < names.length; column++) {
        const text = fields[column]
        if (text != null) row[names[column] as string] = parsers[column]?.(text)
      }
      this.collected.push(row)
    } catch (error) {
      this.failure = error
    }
  }

  handleCommandComplete({ text }: { text: string }): void {
    // A statement that returns nothing has no description either.
    if (!this.shape) this.remember(noColumns)
    this.lastTag = text
    this.completed++
    this.results.push(this.collected)
    if (this.completed < this.statements.length) this.takeTurn()
  }

  handleReadyForQuery(): void {
    const { callback } = this as unknown as Internals
    const warning = this.connection && standbyWarnings.get(this.connection)
    if (this.connection && warning !== undefined) {
      standbyWarnings.delete(this.connection)
      this.failure ??= new OutcomeUnknown(`PostgreSQL committed without its standby: ${warning}`)
    }
    if (this.failure === undefined) callback(null, { rows: this.collected, results: this.results })
    else callback(this.failure)
  }

  handleError(error: unknown, connection: Connection): void {
    // Those behind the one that failed were skipped, and with them their preparation.
    for (const { name } of this.statements.slice(this.completed)) delete connection.submittedNamedStatements[name]
    const { callback } = this as unknown as Internals
    callback(this.failure ?? error)
  }

  /** The answers that come now are those to this statement. pg notes the name of the one that has been parsed. */
  private takeTurn(): void {
    const { text, name } = this.statements[this.completed] as Sql
    Object.assign(this, { text, name })
    this.collected = []
    this.shape = this.knownShape()
  }

  private knownShape(): Shape | undefined {
    return this.connection && shapes.get(this.connection)?.get((this.statements[this.completed] as Sql).name)
  }

  private remember(shape: Shape): void {
    this.shape = shape
    if (!this.connection) return
    shapes.get(this.connection)?.set((this.statements[this.completed] as Sql).name, shape)
  }
}

const isParsed = ({ parsedStatements, submittedNamedStatements }: Connection, name: string): boolean =>
  (parsedStatements[name] ?? submittedNamedStatements[name]) !== undefined

export type Rows = Pick<pg.QueryResult, 'rows'>
/** The rows of the last statement, and those of each. */
export type Results = Rows & { readonly results: readonly unknown[][] }
export type Queryable = { query: pg.ClientBase['query'] | pg.Pool['query'] }

/** Both a connection and the pool run it, and call back. */
export const prepared = (client: Queryable, statement: Sql): Promise<Rows> =>
  submit(client, new PreparedQuery([statement]))

export const submit = (client: Queryable, query: PreparedQuery): Promise<Results> =>
  new Promise((resolve, reject) => {
    const run = client.query as (query: PreparedQuery, values: undefined, done: Done) => void
    run.call(client, query, undefined, (error, result) => (error ? reject(error) : resolve(result)))
  })
type Done = (error: Error | null, result: Results) => void
