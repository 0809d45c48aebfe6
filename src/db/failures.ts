/** The one place that interprets PostgreSQL's SQLSTATEs. */
type DatabaseError = { code?: string; constraint?: string; message?: string }

/** Constraints decide races: callers translate a violation into a refusal by the constraint's name. */
export function violates(error: unknown, constraint: string): boolean {
  return (error as DatabaseError)?.constraint === constraint
}

// Class 08: connection; 53: out of resources; 57: operator intervention (57014 is a statement time-out); 55P03: lock
// not available; 42P01 and 42703: a table or column is missing because the database has not been migrated to this
// version yet; 26000: an equal statement sent before this one could not be prepared for such a reason; 25006: a
// read-only server, such as a standby; 40: deadlock or serialization failure, rolled back completely. ECONN… and pg's
// own texts: the socket broke or the pool is exhausted.
const transientStates = /^(08|40|53|57|55P03|42P01|42703|26000|25006)/
const transientSystemErrors = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'ENOENT',
  'EAI_AGAIN',
  'ENOTFOUND',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ECONNABORTED',
])
const transientTexts =
  /Connection terminated|timeout exceeded when trying to connect|timeout expired|Query read timeout|not queryable/

const ofDatabase = new WeakSet<object>()

/** Marks errors of the database connection, because sockets of clients and files fail with the same codes. */
export function fromDatabase(error: unknown): never {
  if (typeof error === 'object' && error !== null) ofDatabase.add(error)
  if (cannotWrite(error)) lastRefusedWrite = { reason: (error as Error).message, at: Date.now() }
  throw error
}

/** True if PostgreSQL can only read: its disk is full, or it is a standby. */
export const cannotWrite = (error: unknown): boolean =>
  ['53100', '25006'].includes((error as DatabaseError)?.code ?? '')

const recentMs = 60_000
let lastRefusedWrite = { reason: '', at: Number.NEGATIVE_INFINITY }

/**
 * Why PostgreSQL refused a write within the last minute. Uses observed failures, because a test write would need space.
 */
export const recentWriteFault = (): string | undefined =>
  Date.now() - lastRefusedWrite.at < recentMs ? `PostgreSQL refuses changes: ${lastRefusedWrite.reason}` : undefined

/** True if the database is at fault, not the request or the code, and a retry makes sense. */
export function isUnavailable(error: unknown): boolean {
  if (typeof error !== 'object' || error === null || !ofDatabase.has(error)) return false
  const { code = '', message = '' } = error as DatabaseError
  return transientStates.test(code) || transientSystemErrors.has(code) || transientTexts.test(message)
}

const setupHints: Record<string, string> = {
  '28P01': 'Check the user and password in GATEHOUSE_DATABASE_URL.',
  '28000': 'Check the user in GATEHOUSE_DATABASE_URL, and pg_hba.conf.',
  '3D000': 'Create the database, or correct its name in GATEHOUSE_DATABASE_URL.',
  '42P01': "Run 'gatehouse migrate' first.",
  '42703': "Run 'gatehouse migrate' with this version first.",
  '42501': "Set GATEHOUSE_DATABASE_URL to the role that owns the tables, as for 'migrate'.",
}

/** True if PostgreSQL answers but rejects this user or database: waiting does not help. */
export const isWrongDatabase = (error: unknown): boolean =>
  ['28P01', '28000', '3D000'].includes((error as DatabaseError)?.code ?? '')

/** PostgreSQL's message and a hint for the operator; undefined if the set-up is not at fault. */
export function setupFault(error: unknown): string | undefined {
  const { code = '', message = '' } = (error ?? {}) as DatabaseError
  const hint = setupHints[code]
  return hint && `${message}. ${hint}`
}

/** True if PostgreSQL rejected a value: invalid for its type (class 22) or against a constraint (class 23). */
export const isDataFault = (error: unknown): boolean => /^2[23]/.test((error as DatabaseError)?.code ?? '')

/**
 * True if PostgreSQL itself reported the failure, so nothing was committed; false if the connection or the server was
 * lost. EPIPE looks like a SQLSTATE, but none begins with E; 40003 means that the outcome is unknown.
 */
export const isAnswer = (error: unknown): boolean =>
  /^(?!08|57|40003|E)[0-9A-Z]{5}$/.test((error as DatabaseError)?.code ?? '')

/** The connection broke while COMMIT was under way, so the outcome is unknown. */
export class OutcomeUnknown extends Error {
  override readonly name = 'OutcomeUnknown'
}
