import { isDataFault } from './failures.ts'

/**
 * Writes rows in one statement. If PostgreSQL refuses a value in them, halves are tried until the rows at fault are alone:
 * those are dropped, and the rest is written. Any other failure is thrown, with nothing dropped for it.
 */
export async function writeSalvaging<Row>(
  rows: readonly Row[],
  write: (rows: readonly Row[]) => Promise<void>,
  onDropped: (row: Row, error: unknown) => void,
): Promise<void> {
  if (rows.length === 0) return
  try {
    await write(rows)
  } catch (error) {
    if (!isDataFault(error)) throw error
    if (rows.length === 1) return onDropped(rows[0] as Row, error)
    const middle = rows.length >> 1
    await writeSalvaging(rows.slice(0, middle), write, onDropped)
    await writeSalvaging(rows.slice(middle), write, onDropped)
  }
}
