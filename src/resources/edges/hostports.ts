import { lockItemInTransaction } from '../../db/advisory_locks.ts'
import { violates } from '../../db/failures.ts'
import { type Db, later, many, maybeOne, one } from '../../db/pool.ts'
import { type SqlFragment, sql } from '../../db/sql.ts'
import type { Caller } from '../../identity/caller.ts'
import { parseHostport } from '../../kernel/edge/hostport.ts'
import { Refusal } from '../../kernel/errors.ts'
import { toId, type Uuid } from '../../kernel/ids.ts'
import { beyondQuota } from '../../kernel/quota_refusal.ts'

type Account = Pick<Caller, 'accountId'>

/**
 * Replaces all hostports of the edge, including refused ones, in the given order. The database decides about conflicts:
 * the primary key within an account, the trigger hostports_one_owner between accounts.
 */
export async function replaceHostports(
  tx: Db,
  { accountId }: Account,
  edgeId: Uuid,
  hostports: readonly string[],
  domainOfHostport: ReadonlyMap<string, Uuid> = new Map(),
): Promise<void> {
  await later(tx, sql`delete from hostports where account_id = ${accountId} and edge_id = ${edgeId}`)
  await later(tx, sql`delete from refused_hostports where account_id = ${accountId} and edge_id = ${edgeId}`)
  if (hostports.length === 0) return
  const inserted = new Set(await insertHostports(tx, { accountId }, edgeId, hostports, domainOfHostport))
  const taken = hostports.find((hostport) => !inserted.has(hostport))
  if (taken !== undefined) throw takenHostport(taken, hostports, await findOwnEdge(tx, { accountId }, taken))
}

/** Resolves to those that no other edge has. */
async function insertHostports(
  tx: Db,
  { accountId }: Account,
  edgeId: Uuid,
  hostports: readonly string[],
  domainOfHostport: ReadonlyMap<string, Uuid>,
): Promise<string[]> {
  try {
    // Sorted, so that two edges that want the same hostports wait for each other without a deadlock.
    const rows = await many<{ hostport: string }>(
      tx,
      sql`
      insert into hostports (hostport, account_id, edge_id, reserved_domain_id, position)
      select sent.hostport, ${accountId}, ${edgeId}, sent.domain_id, sent.position
      from unnest(${hostports}::text[], ${hostports.map((each) => domainOfHostport.get(each) ?? null)}::uuid[])
        with ordinality as sent (hostport, domain_id, position)
      order by sent.hostport
      on conflict (hostport) do nothing
      returning hostport`,
    )
    return rows.map(({ hostport }) => hostport)
  } catch (cause) {
    if (!violates(cause, 'hostports_one_owner')) throw cause
    throw takenHostport((cause as { detail?: string }).detail ?? '', hostports, undefined, cause)
  }
}

/**
 * Ports are scarce and belong to one account each, so every account has a limit. An account's changes of TCP hostports
 * are serialized, so that two cannot exceed it together. An account over the limit can still remove ports.
 */
export async function limitingTcpPorts(
  tx: Db,
  { accountId }: Account,
  byDefault: number,
  change: () => Promise<void>,
): Promise<void> {
  await later(tx, sql`select ${lockItemInTransaction('tcpPortsOfAccount', sql`hashtext(${accountId})`)}`)
  const before = await tcpPortsOf(tx, { accountId }, byDefault)
  await change()
  const { used, quota } = await tcpPortsOf(tx, { accountId }, byDefault)
  if (used > quota && used > before.used)
    throw beyondQuota({ kind: 'tcp_ports', limit: quota, used: before.used, added: used - before.used })
}

/** Number of TCP ports of an account. Hostports that share a port count once. */
export const countTcpPorts = (accountId: SqlFragment) => sql`(
      select count(distinct hostport_claim(hostport)) from hostports
      where account_id = ${accountId} and hostport not like '%:443')`

const tcpPortsOf = (tx: Db, { accountId }: Account, byDefault: number) =>
  one<{ used: number; quota: number }>(
    tx,
    sql`
    select ${countTcpPorts(sql`${accountId}`)} as used, quota_of(${accountId}, 'tcp_ports', ${byDefault}) as quota`,
  )

export const hostportsOf = async (tx: Db, { accountId }: Account, edgeId: Uuid): Promise<string[]> =>
  (
    await many<{ hostport: string }>(
      tx,
      sql`select hostport from hostports where account_id = ${accountId} and edge_id = ${edgeId} order by position`,
    )
  ).map(({ hostport }) => hostport)

export const countRefusedHostports = async (db: Db): Promise<number> =>
  (await one<{ count: number }>(db, sql`select count(*) from refused_hostports`)).count

type OwnEdge = { id: Uuid; kind: 'tcp' | 'https' }

const findOwnEdge = (tx: Db, { accountId }: Account, hostport: string) =>
  maybeOne<OwnEdge>(
    tx,
    sql`
    select e.id, e.kind from hostports h join edges e on e.account_id = h.account_id and e.id = h.edge_id
    where h.hostport = ${hostport} and h.account_id = ${accountId}`,
  )

/**
 * Reveals nothing about other accounts' hostports: neither the owner, nor whether the name itself or a wildcard
 * conflicts.
 */
export function takenHostport(
  hostport: string,
  sent: readonly string[],
  ownEdge: OwnEdge | undefined,
  cause?: unknown,
): Refusal {
  const details = { field: `hostports[${sent.indexOf(hostport)}]` }
  return new Refusal('ERR_HOSTPORT_TAKEN', takenMessage(hostport, ownEdge), { details, cause })
}

function takenMessage(hostport: string, ownEdge: OwnEdge | undefined): string {
  if (ownEdge) {
    const edge = toId(ownEdge.kind === 'tcp' ? 'edgtcp' : 'edghts', ownEdge.id)
    return `${hostport} belongs to the edge ${edge} of this account. Remove it there first.`
  }
  const parsed = parseHostport(hostport, { wildcard: true })
  if (typeof parsed !== 'string' && parsed.port !== 443)
    return `Port ${parsed.port} belongs to another account on this installation. Use a different port.`
  return `${hostport} overlaps a host name of another account on this installation. Use a different name. If the domain is yours, ask the operator of the installation which account has it.`
}
