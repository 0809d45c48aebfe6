import { type Db, many, one } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import type { DomainService } from '../../http/domains.ts'
import type { Caller } from '../../identity/caller.ts'
import { challengeName, domainOf, domainsOver } from '../../kernel/edge/domains.ts'
import { canonicalHostport } from '../../kernel/edge/hostport.ts'
import { Refusal } from '../../kernel/errors.ts'
import { toId, type Uuid } from '../../kernel/ids.ts'
import { replanOrders } from '../reserved_domains/order_plans.ts'
import { hostportsOf, replaceHostports, takenHostport } from './hostports.ts'
import { type Claim, claims, refuseHostports } from './ownership.ts'

type Account = Pick<Caller, 'accountId'>
/** A reservation that covers a name: held by any account, or one of this account that is not held. */
type Reservation = { id: Uuid; account_id: Uuid; domain: string; challenge: string; held: boolean }

/**
 * Sets the hostports of an HTTPS edge. Each new one needs a domain that the account holds, unless the operator trusts
 * all accounts. Existing hostports need none, so that nothing breaks when further accounts join. No account gets a name
 * under another account's held domain.
 */
export async function setHttpsHostports(
  tx: Db,
  account: Account,
  domains: DomainService,
  edgeId: Uuid,
  sent: readonly string[] | undefined,
): Promise<void> {
  if (!sent) return
  const hostports = sent.map(canonicalHostport)
  const kept = new Set(await hostportsOf(tx, account, edgeId))
  const reservations = await findReservations(tx, account, hostports)
  const required = await isProofRequired(tx, domains)
  const domainOfHostport = new Map<string, Uuid>()
  for (const [index, hostport] of hostports.entries()) {
    const over = domainsOver(domainOf(hostport))
    const nearest = over.flatMap((domain) => reservations.filter((each) => each.domain === domain))
    const holder = nearest.find(({ held }) => held)
    if (holder?.account_id === account.accountId) domainOfHostport.set(hostport, holder.id)
    else if (kept.has(hostport)) continue
    else if (holder) throw takenHostport(hostport, hostports, undefined)
    else if (required) throw unverified(hostport, index, nearest[0])
  }
  if (required) await displaceUnproven(tx, account, [...domainOfHostport.keys()])
  await replaceHostports(tx, account, edgeId, hostports, domainOfHostport)
  // The managed certificate may need more names now.
  const added = hostports.filter((hostport) => !kept.has(hostport))
  if (added.length > 0) await replanOrders(tx, account.accountId, namesOver(added))
}

const namesOver = (hostports: readonly string[]): string[] => [
  ...new Set(hostports.flatMap((hostport) => domainsOver(domainOf(hostport)))),
]

/** Locks held reservations until the transaction ends, so that none lapses meanwhile. */
async function findReservations(
  tx: Db,
  { accountId }: Account,
  hostports: readonly string[],
): Promise<readonly Reservation[]> {
  const names = namesOver(hostports)
  if (names.length === 0) return []
  const held = sql`status in ('verified', 'failing', 'assigned')`
  const own = await many<Reservation>(
    tx,
    sql`
    select id, account_id, domain, challenge, ${held} as held from reserved_domains
    where account_id = ${accountId} and domain = any(${names}) order by id for share`,
  )
  const others = await many<Reservation>(
    tx,
    sql`
    select id, account_id, domain, challenge, true as held from reserved_domains
    where domain = any(${names}) and ${held} and account_id <> ${accountId}`,
  )
  return [...own, ...others]
}

/** A single account has no one to be protected from. */
export async function isProofRequired(db: Db, { ownership }: Pick<DomainService, 'ownership'>): Promise<boolean> {
  if (ownership !== 'auto') return ownership === 'required'
  const { count } = await one<{ count: number }>(db, sql`select count(*) from (select from accounts limit 2) few`)
  return count > 1
}

function unverified(hostport: string, index: number, reservation: Reservation | undefined): Refusal {
  const how = reservation
    ? `Publish the TXT record ${challengeName(reservation.domain)} with the value ${reservation.challenge}, then POST /reserved_domains/${toId('rd', reservation.id)}/verify.`
    : `Reserve ${domainOf(hostport)}, or a domain above it, with POST /reserved_domains and verify it.`
  return new Refusal('ERR_DOMAIN_UNVERIFIED', `${hostport} is not under a verified domain of this account. ${how}`, {
    details: { field: `hostports[${index}]`, ...(reservation && { reserved_domain_id: toId('rd', reservation.id) }) },
  })
}

/**
 * Removes unproven claims of other accounts to these names: they date from a time when names were first come, first
 * served, or their proof has lapsed. Their edges list them under refused_hostports.
 */
async function displaceUnproven(tx: Db, { accountId }: Account, hostports: readonly string[]): Promise<void> {
  if (hostports.length === 0) return
  const losers = await many<Claim>(
    tx,
    sql`
    ${claims}
    where h.account_id <> ${accountId} and h.hostport like '%:443'
      and not exists (
        select from reserved_domains d
        where d.account_id = h.account_id and d.id = h.reserved_domain_id
          and d.status in ('verified', 'failing', 'assigned'))
      and exists (
        select from unnest(${hostports}::text[]) as wanted (hostport)
        where h.hostport = wanted.hostport
          or (wanted.hostport like '*.%'
            and hostport_claim(h.hostport) collate "C" >= hostport_claim(wanted.hostport)
            and hostport_claim(h.hostport) collate "C" < left(hostport_claim(wanted.hostport), -1) || '/')
          or (h.hostport like '*.%'
            and starts_with(hostport_claim(wanted.hostport), hostport_claim(h.hostport))))
    order by h.hostport`,
  )
  await refuseHostports(
    tx,
    losers.map((claim) => ({ claim, reason: 'domain_owned' })),
    'server.domains.displace',
  )
}
