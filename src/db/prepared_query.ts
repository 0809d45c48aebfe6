import pg from 'pg'
import { OutcomeUnknown } from './failures.ts'
import type { Sql } from './sql.ts'

/**
 * Internals of pg that its types omit. prepared_query.test.ts covers all of them, so an incompatible upgrade fails
 * there.
 */
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
  /**
   * A row of nulls. Copying it allocates room for all columns, while a row that grows column by column is moved several
   * times.
   */
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
 * If the wait for a synchronous standby is canceled, PostgreSQL reports success and only a warning: the change is
 * committed on the primary, but a failover may lose it.
 */
const canceledStandbyWait = '01000'
/** Warnings about the statements in progress, by connection. */
const standbyWarnings = new WeakMap<Connection, string>()

function listenForWarnings(connection: Connection): void {
  connection.on('notice', ({ code, message = '' }) => {
    if (code === canceledStandbyWait) standbyWarnings.set(connection, message)
  })
}

const { prepareValue } = (pg as unknown as { utils: { prepareValue: (value: unknown) => unknown } }).utils

/**
 * Prepared statements sent in one write and answered together. PostgreSQL runs them in order, each with its own
 * snapshot and time limit, and skips the rest when one fails: so `begin` can be the first and `commit` the last.
 *
 * For every execution, pg asks for the columns and builds a result with their parsers. The columns of a prepared
 * statement do not change, so we ask once per connection. If a migration changes them, PostgreSQL rejects the
 * statement, as it does with pg's own queries.
 */
export class PreparedQuery extends pg.Query {
  /** Command tag of the last one: `COMMIT`, `INSERT 0 1`. */
  lastTag = ''
  private completed = 0
  private readonly statements: readonly Sql[]
  private readonly results: unknown[][] = []
  private collected: unknown[] = []
  private shape: Shape | undefined
  private failure: unknown
  private connection: Connection | undefined

  /** `client`: its time limit for one statement is multiplied by their number. */
  constructor(statements: readonly Sql[], client?: object) {
    // Passes the text only: pg copies any object key by key.
    super((statements[0] as Sql).text)
    this.statements = statements
    const { query_timeout = 0 } = (client as WithSettings | undefined)?.connectionParameters ?? {}
    if (query_timeout) Object.assign(this, { query_timeout: query_timeout * statements.length })
    this.takeTurn()
  }

  /** Number of statements that PostgreSQL has not completed. */
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
    // A statement without results has no row description either.
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
    // PostgreSQL skipped the statements after the failed one, so they are not prepared.
    for (const { name } of this.statements.slice(this.completed)) delete connection.submittedNamedStatements[name]
    const { callback } = this as unknown as Internals
    callback(this.failure ?? error)
  }

  /** The following messages belong to this statement. pg records the name of the statement that was parsed. */
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
/** Rows of the last statement, and rows of each. */
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
