import { type Db, many, run } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import type { RecordKey } from '../../distribution/records.ts'
import { newId, toId, type Uuid } from '../../kernel/ids.ts'
import { recordChange } from '../../operations/audit.ts'
import { writeOutbox } from '../../operations/outbox.ts'
import { hostportsOf } from './hostports.ts'
import { isSharedDomain } from './public_suffix.ts'
import type { RefusedHostport } from './store.ts'

export type Claim = {
  hostport: string
  account_id: Uuid
  edge_id: Uuid
  kind: 'tcp' | 'https'
  created_at: string
}
export type Loser = { claim: Claim; reason: RefusedHostport['reason']; because?: Claim }
export type RefusedClaim = {
  hostport: string
  accountId: string
  edgeId: string
  reason: RefusedHostport['reason']
  /** The conflicting claim that stays in force. */
  overlaps?: { hostport: string; accountId: string; edgeId: string }
}

const edgeIdOf = ({ kind, edge_id }: Claim) => toId(kind === 'tcp' ? 'edgtcp' : 'edghts', edge_id)
const recordKeyOf = (claim: Claim) => `${claim.kind}.${edgeIdOf(claim)}` as RecordKey

/**
 * Resolves overlaps between accounts in a database from before the constraint: the older claim stays, the other is
 * refused. The edge's creation time counts, because hostports have none. Call it in the transaction that adds the
 * constraint. Resolves to the refused claims.
 */
export async function refuseOverlaps(tx: Db, wildcardSuffixes: readonly string[]): Promise<RefusedClaim[]> {
  await run(tx, sql`lock table hostports in share row exclusive mode`)
  const shared = await findWildcardsOfSharedDomains(tx, wildcardSuffixes)
  const losers: Loser[] = [
    ...shared.map((claim): Loser => ({ claim, reason: 'public_suffix' })),
    ...(await findYoungerClaims(
      tx,
      shared.map(({ hostport }) => hostport),
    )),
  ]
  await refuseHostports(tx, losers, 'server.migrate')
  return losers.map(({ claim, reason, because }) => ({
    ...shown(claim),
    reason,
    ...(because && { overlaps: shown(because) }),
  }))
}

const shown = (claim: Claim) => ({
  hostport: claim.hostport,
  accountId: toId('ac', claim.account_id),
  edgeId: edgeIdOf(claim),
})

/** One row per hostport. Queries name the hostport `h` and its edge `e`. */
export const claims = sql`
  select h.hostport, h.account_id, h.edge_id, e.kind, e.created_at
  from hostports h join edges e on e.account_id = h.account_id and e.id = h.edge_id`

async function findWildcardsOfSharedDomains(tx: Db, allowed: readonly string[]): Promise<Claim[]> {
  const wildcards = await many<{ hostport: string }>(tx, sql`select hostport from hostports where hostport like '*.%'`)
  const domainOf = ({ hostport }: { hostport: string }) => hostport.slice(2, hostport.lastIndexOf(':'))
  const found = wildcards.filter(
    (wildcard) => !allowed.includes(domainOf(wildcard)) && isSharedDomain(domainOf(wildcard)),
  )
  return many<Claim>(tx, sql`${claims} where h.hostport = any(${found.map(({ hostport }) => hostport)})`)
}

/** Processes the oldest first, because a refused claim must not refuse others. */
async function findYoungerClaims(tx: Db, without: readonly string[]): Promise<Loser[]> {
  const rivals = new Map<string, string[]>()
  for (const { a, b } of await overlappingPairs(tx, without)) {
    rivals.set(a, [...(rivals.get(a) ?? []), b])
    rivals.set(b, [...(rivals.get(b) ?? []), a])
  }
  const inForce = new Map<string, Claim>()
  const losers: Loser[] = []
  const contested = await many<Claim>(
    tx,
    sql`${claims} where h.hostport = any(${[...rivals.keys()]}) order by e.created_at, e.id, h.position`,
  )
  for (const claim of contested) {
    const winner = rivals.get(claim.hostport)?.find((rival) => inForce.has(rival))
    if (winner === undefined) inForce.set(claim.hostport, claim)
    else losers.push({ claim, reason: 'overlap', because: inForce.get(winner) as Claim })
  }
  return losers
}

/**
 * Pairs of different accounts: the same port, or a wildcard and a name under it. Same claims as in hostports_one_owner.
 */
const overlappingPairs = (tx: Db, without: readonly string[]) =>
  many<{ a: string; b: string }>(
    tx,
    sql`
    select w.hostport as a, n.hostport as b
    from hostports w join hostports n
      on hostport_claim(n.hostport) collate "C" >= hostport_claim(w.hostport)
        and hostport_claim(n.hostport) collate "C" < left(hostport_claim(w.hostport), -1) || '/'
        and n.account_id <> w.account_id
    where w.hostport like '*.%' and w.hostport <> all(${without}) and n.hostport <> all(${without})
    union
    select a.hostport, b.hostport
    from hostports a join hostports b
      on hostport_claim(b.hostport) collate "C" = hostport_claim(a.hostport) and a.account_id < b.account_id
    where a.hostport not like '%:443'`,
  )

/** Removes the hostports on all nodes and audits it in their accounts. */
export async function refuseHostports(tx: Db, losers: readonly Loser[], operation: string): Promise<void> {
  for (const ofEdge of Map.groupBy(losers, ({ claim }) => claim.edge_id).values()) await refuse(tx, ofEdge, operation)
}

/** All refused claims of one edge. */
async function refuse(tx: Db, losers: readonly Loser[], operation: string): Promise<void> {
  const [first] = losers
  if (!first) return
  const { account_id: accountId, edge_id } = first.claim
  const [names, reasons] = [losers.map(({ claim }) => claim.hostport), losers.map(({ reason }) => reason)]
  const before = await hostportsOf(tx, { accountId }, edge_id)
  await run(
    tx,
    sql`
    insert into refused_hostports (account_id, edge_id, hostport, position, reason)
    select h.account_id, h.edge_id, h.hostport, h.position, r.reason
    from unnest(${names}::text[], ${reasons}::text[]) as r (hostport, reason)
      join hostports h on h.hostport = r.hostport and h.account_id = ${accountId} and h.edge_id = ${edge_id}`,
  )
  await run(tx, sql`delete from hostports where account_id = ${accountId} and hostport = any(${names})`)
  await recordChange(
    tx,
    { accountId, operation, operationId: newId('op') },
    {
      resourceId: edgeIdOf(first.claim),
      before: { hostports: before },
      after: {
        hostports: await hostportsOf(tx, { accountId }, edge_id),
        refused_hostports: losers.map(({ claim, reason }) => ({ hostport: claim.hostport, reason })),
      },
    },
  )
  await writeOutbox(tx, accountId, [recordKeyOf(first.claim)])
}
