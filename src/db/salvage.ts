import { isDataFault } from './failures.ts'

/**
 * Writes rows in one statement. If PostgreSQL rejects a value, retries halves until the faulty rows are isolated, drops
 * those and writes the rest. Any other failure is thrown without dropping anything.
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
