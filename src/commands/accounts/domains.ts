import { type Db, type DbPool, many, maybeOne } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { transaction } from '../../db/transaction.ts'
import { rfc3339, systemClock } from '../../kernel/clock.ts'
import { newId, toId, type Uuid } from '../../kernel/ids.ts'
import { recordChange } from '../../operations/audit.ts'
import { recordStanding } from '../../resources/reserved_domains/checks.ts'
import {
  bindHostports,
  findReservedDomain,
  insertReservedDomain,
  type ReservedDomainRow,
  updateStanding,
} from '../../resources/reserved_domains/store.ts'
import { stableDomainFields, toReservedDomain } from '../../resources/reserved_domains/view.ts'
import { findAccount } from './find.ts'

type Line = { id: string; account_id: string; domain: string; status: string }
const shown = ({
  id,
  account_id,
  domain,
  status,
}: Pick<ReservedDomainRow, 'id' | 'account_id' | 'domain' | 'status'>) => ({
  id: toId('rd', id),
  account_id: toId('ac', account_id),
  domain,
  status,
})

/** Needs no proof, because the operator knows the owner. Refused while another account holds the domain. */
export async function assignDomain(db: DbPool, nameOrId: string, domain: string): Promise<Line | 'no account'> {
  const account = await findAccount(db, nameOrId)
  if (!account) return 'no account'
  return transaction(db, async (tx) => {
    const before = await findByName(tx, account.id, domain)
    const row = before ?? (await reserve(tx, account.id, domain))
    const standing = { status: 'assigned', verified_at: rfc3339(systemClock()) } as const
    const after = await updateStanding(tx, row, {
      ...standing,
      lapses_at: null,
      checked_at: row.checked_at,
      error: null,
    })
    await bindHostports(tx, after)
    await recordStanding(tx, 'server.domains.assign', row, after)
    return shown(after)
  })
}

/**
 * The account keeps the reservation, and can verify it again. Hostports under the domain stay until another account
 * proves it.
 */
export async function unassignDomain(
  db: DbPool,
  nameOrId: string,
  domain: string,
): Promise<Line | 'no account' | 'not assigned'> {
  const account = await findAccount(db, nameOrId)
  if (!account) return 'no account'
  return transaction(db, async (tx) => {
    const before = await findByName(tx, account.id, domain)
    if (before?.status !== 'assigned') return 'not assigned'
    const after = await updateStanding(tx, before, { ...before, status: 'pending', verified_at: null })
    await recordStanding(tx, 'server.domains.unassign', before, after)
    return shown(after)
  })
}

export async function listDomains(db: Db): Promise<Line[]> {
  const rows = await many<ReservedDomainRow>(
    db,
    sql`select account_id, id, domain, status from reserved_domains order by domain, account_id`,
  )
  return rows.map(shown)
}

async function findByName(tx: Db, accountId: Uuid, domain: string): Promise<ReservedDomainRow | undefined> {
  const found = await maybeOne<{ id: Uuid }>(
    tx,
    sql`select id from reserved_domains where account_id = ${accountId} and domain = ${domain}`,
  )
  return found && findReservedDomain(tx, { accountId }, toId('rd', found.id), true)
}

async function reserve(tx: Db, accountId: Uuid, domain: string): Promise<ReservedDomainRow> {
  const row = await insertReservedDomain(tx, { accountId }, { domain, description: null, metadata: null })
  const shownRow = toReservedDomain(row, (path) => path)
  await recordChange(
    tx,
    { accountId, operation: 'server.domains.assign', operationId: newId('op') },
    { resourceId: shownRow.id, before: null, after: stableDomainFields(shownRow) },
  )
  return row
}
