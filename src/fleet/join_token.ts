import { hash, randomBytes } from 'node:crypto'
import { type Db, many, maybeOne, run } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import type { Cell } from '../operations/placement.ts'

/** A prefix for secret scanners, and 256 random bits. */
const prefix = 'gatehouse_join_'
const shape = new RegExp(`^${prefix}[\\w-]{43}$`)

export const newJoinToken = (): string => prefix + randomBytes(32).toString('base64url')
export const isJoinToken = (text: string): boolean => shape.test(text)
/** A plain hash suffices for 256 random bits. Looking up the hash takes the same time for every wrong token. */
const hashed = (token: string): Buffer => hash('sha256', token, 'buffer')

export type Invitation = {
  readonly cell: Cell
  readonly wave: number
  readonly name: string | null
  readonly lifeSeconds: number
}

export const insertJoinToken = (db: Db, token: string, { cell, wave, name, lifeSeconds }: Invitation): Promise<void> =>
  run(
    db,
    sql`
    insert into join_tokens (token_hash, name, cell_id, wave, expires_at)
    values (${hashed(token)}, ${name}, ${cell.id}, ${wave}, now() + ${lifeSeconds} * interval '1 second')`,
  )

export type JoinToken = {
  name: string | null
  cell: Cell
  cellAccount: string | null
  leafServers: string[] | null
  wave: number
  usedBy: string | null
  isExpired: boolean
}

/**
 * Locks the token until the transaction ends, so that of two nodes with the same token the second sees the first one's
 * result.
 */
export async function lockJoinToken(tx: Db, token: string): Promise<JoinToken | undefined> {
  const row = await maybeOne<{
    name: string | null
    cell_id: number
    cell: string
    cell_account: string | null
    leaf_servers: string[] | null
    wave: number
    used_by: string | null
    expired: boolean
  }>(
    tx,
    sql`
    select t.name, t.cell_id, c.name as cell, a.account as cell_account, a.servers as leaf_servers, t.wave, t.used_by,
      t.expires_at <= clock_timestamp() as expired
    from join_tokens t join cells c on c.id = t.cell_id
      left join cell_accounts a on a.cell_id = c.id
    where t.token_hash = ${hashed(token)} for update of t`,
  )
  return (
    row && {
      name: row.name,
      cell: { id: row.cell_id, name: row.cell },
      cellAccount: row.cell_account,
      leafServers: row.leaf_servers,
      wave: row.wave,
      usedBy: row.used_by,
      isExpired: row.expired,
    }
  )
}

export const spendJoinToken = (tx: Db, token: string, account: string): Promise<void> =>
  run(tx, sql`update join_tokens set used_by = ${account} where token_hash = ${hashed(token)}`)

/** Resolves to whether there was a token with which a machine could have joined under this name. */
export async function withdrawJoinTokens(tx: Db, name: string): Promise<boolean> {
  const withdrawn = await many(
    tx,
    sql`
    update join_tokens set expires_at = now()
    where name = ${name} and used_by is null and expires_at > now() returning 1 as withdrawn`,
  )
  return withdrawn.length > 0
}

/** Resolves to whether this is the token's first refusal within a minute: one event per minute is enough. */
export async function noteRefusal(db: Db, token: string): Promise<boolean> {
  const noted = await maybeOne(
    db,
    sql`
    update join_tokens set last_refused_at = now()
    where token_hash = ${hashed(token)} and (last_refused_at is null or last_refused_at < now() - interval '1 minute')
    returning 1 as noted`,
  )
  return noted !== undefined
}

/** Deletes tokens that expired a month ago. Events keep a record of them for longer. */
export const forgetJoinTokens = (db: Db): Promise<void> =>
  run(db, sql`delete from join_tokens where expires_at < now() - interval '30 days'`)
