import { setTimeout } from 'node:timers/promises'
import { many, openPool } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { newUuid } from '../../src/kernel/ids.ts'
import type { ControlPlane, Scope } from '../harness/control_plane.ts'
import { loadScaledTimeout } from '../harness/load_scaled_timeout.ts'
import { followNaively, followSettled, type Reading } from './readers.ts'
import { compareWithTables, lastGeneration, newLedger, writeStraight, writeThroughApi } from './writers.ts'

const straightWriters = 4
const apiWriters = 4

export type Outcome = {
  /** How the ledger, the outbox and the audit disagree. */
  faults: string[]
  settled: Reading & { missed: number; repeated: number }
  naive: Reading & { missed: number }
  rows: number
  figures: string
}

/** Eight writers and both readers at once, for a while. */
export async function outboxRounds(scope: Scope, plane: ControlPlane, milliseconds: number): Promise<Outcome> {
  const db = openPool(
    { url: plane.databaseUrl, poolSize: straightWriters + 4, connectTimeoutMs: 60_000, statementTimeoutMs: 60_000 },
    () => {},
  )
  scope.after(() => db.end())
  const [admin, straight, ledger] = [await plane.newAccount(), newUuid(), newLedger()]
  const until = Date.now() + milliseconds
  // A busy machine writes less in the same time, and then a naive reader may happen to miss nothing.
  const goOn = () => Date.now() < until || ledger.committed.size < 500

  // The reader continues until it has seen the last row that exists when all writing has ended.
  let end: number | undefined
  const readers = Promise.all([followSettled(db, () => end), followNaively(db, () => end)])
  await Promise.all([
    ...Array.from({ length: straightWriters }, () => writeStraight(db, straight, ledger, goOn)),
    ...Array.from({ length: apiWriters }, () => writeThroughApi(admin, ledger, goOn)),
  ])
  end = await lastGeneration(db)
  // A reader that misses the last row would wait for it forever.
  const giveUp = setTimeout(loadScaledTimeout(15_000), undefined, { ref: false }).then(() => {
    end = 0
  })
  const [settled, naive] = await Promise.race([readers, giveUp.then(() => readers)])

  const all = await many<{ name: string }>(db, sql`select generation || ' ' || key as name from outbox`)
  const missedBy = ({ rows }: Reading) => new Set(all.map(({ name }) => name)).difference(new Set(rows)).size
  const { committed, rolledBack, answered, slow } = ledger
  return {
    faults: await compareWithTables(db, { straight, api: admin }, ledger),
    settled: {
      ...settled,
      missed: missedBy(settled),
      repeated: settled.rows.length - new Set(settled.rows).size,
    },
    naive: { ...naive, missed: missedBy(naive) },
    rows: all.length,
    figures:
      `${all.length} rows of ${committed.size} transactions and ${answered.size} API changes, ${rolledBack.size} rolled back, ` +
      `${slow} slow; settled reader: ${missedBy(settled)} missed, longest lag ${settled.longestLagMs} ms; ` +
      `naive reader: ${missedBy(naive)} missed`,
  }
}
