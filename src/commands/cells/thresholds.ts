import { type DbPool, maybeOne, run } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { transaction } from '../../db/transaction.ts'
import { recordFleetEvent } from '../../fleet/node_store.ts'

/** How rollouts are watched in a cell with waves. Null turns a threshold off. */
export type Thresholds = {
  readonly soak_seconds: number
  readonly halt_addresses: number | null
  readonly halt_addresses_percent: number | null
  readonly halt_errors_percent: number | null
}

export const off = 'off'
/** In the form that the operator reads and writes. */
export const shownThresholds = ({ soak_seconds, ...halts }: Thresholds): Record<string, number | typeof off> => ({
  soak_seconds,
  ...Object.fromEntries(Object.entries(halts).map(([name, value]) => [name, value ?? off])),
})

export const thresholdColumns = sql`soak_seconds, halt_addresses, halt_addresses_percent, halt_errors_percent`

/**
 * Applies from the next look at the rollouts, even to those already being watched. Resolves to undefined if there is no
 * such cell.
 */
export const setThresholds = (db: DbPool, name: string, wanted: Partial<Thresholds>): Promise<Thresholds | undefined> =>
  transaction(db, async (tx) => {
    const before = await maybeOne<Thresholds>(
      tx,
      sql`select ${thresholdColumns} from cells where name = ${name} for update`,
    )
    if (!before) return undefined
    const after = { ...before, ...wanted }
    await run(
      tx,
      sql`
      update cells set soak_seconds = ${after.soak_seconds}, halt_addresses = ${after.halt_addresses},
        halt_addresses_percent = ${after.halt_addresses_percent}, halt_errors_percent = ${after.halt_errors_percent}
      where name = ${name}`,
    )
    const [was, is] = [shownThresholds(before), shownThresholds(after)]
    const changed = Object.keys(is).filter((field) => was[field] !== is[field])
    const detail = changed.map((field) => `${field} ${was[field]} to ${is[field]}`).join(', ')
    if (changed.length > 0) await recordFleetEvent(tx, { operation: 'cell_changed', detail: `${name}: ${detail}` })
    return after
  })
