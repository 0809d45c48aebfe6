import { Type } from 'typebox'
import { type Db, many, one } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import type { Difference } from '../http/dry_run.ts'
import type { Handling } from '../http/route.ts'
import { Closed } from '../http/wire.ts'
import type { Caller } from '../identity/caller.ts'
import { Refusal } from '../kernel/errors.ts'
import { type Id, toId, toUuid, type Uuid } from '../kernel/ids.ts'
import { describeExtent, type Extent, isUnusual, type UnusualAbove } from '../kernel/unusual_change.ts'

/** Query of every change that can be unusual. */
export const ConfirmQuery = Closed({
  confirm: Type.Optional(
    Type.Boolean({
      description:
        "Make the change even if it removes or adds more than 20 entries, and more than half of a policy's rules or of the edges, routes and backends of the account. The operator may have set other numbers: `GET /caller` has them as `unusual_above`.",
    }),
  ),
})

/** Refuses an unconfirmed unusual change. Resolves to the fields for the audit event. */
export function confirmUnusual(
  { confirmation, settings }: Pick<Handling<unknown, unknown, unknown>, 'confirmation' | 'settings'>,
  extents: readonly Extent[],
): { confirmed?: true } {
  const unusual = extents.filter((extent) => isUnusual(extent, settings.unusualAbove))
  const [first, ...others] = unusual
  if (!first || confirmation === 'judged_as_a_whole') return {}
  if (confirmation === 'given') return { confirmed: true }
  const more = others.length > 0 ? ` ${others.length} more parts of this change are as large.` : ''
  const { of, resource, before, added, removed } = first
  throw new Refusal(
    'ERR_UNUSUAL_CHANGE',
    `This change ${describeExtent(first)}.${more} Nothing was changed. If you are sure, repeat the request with confirm=true.`,
    {
      details: {
        ...{ of, resource, before: String(before), after: String(before - removed + added) },
        ...{ added: String(added), removed: String(removed) },
      },
    },
  )
}

type Counted = { readonly added: Set<string>; readonly removed: Set<string> }

/** The total extent of these changes, made in the transaction of `tx`, where it exceeds the thresholds. */
export async function unusualIn(
  tx: Db,
  { accountId }: Pick<Caller, 'accountId'>,
  differences: readonly Difference[],
  above: UnusualAbove,
): Promise<Extent[]> {
  const atEdge = edgeEntriesIn(differences)
  const ofPolicies = ruleCountsIn(differences)
  const mayBe = ({ added, removed }: { added: number; removed: number }) => Math.max(added, removed) > above.entries
  const extents: Extent[] = []
  const policies = [...ofPolicies].filter(([, counts]) => mayBe(counts))
  if (policies.length > 0) {
    const left = await rulesLeft(
      tx,
      accountId,
      policies.map(([id]) => id),
    )
    for (const [id, counts] of policies)
      extents.push({ of: 'ip_policy_rules', resource: id, ...withBefore(left.get(toUuid(id)) ?? 0, counts) })
  }
  const counts = { added: atEdge.added.size, removed: atEdge.removed.size }
  if (mayBe(counts))
    extents.push({
      ...{ of: 'edge_entries', resource: toId('ac', accountId) },
      ...withBefore(await countEdgeEntries(tx, accountId), counts),
    })
  return extents.filter((extent) => isUnusual(extent, above))
}

/** Computed from the current number, so concurrent changes by others affect both numbers. */
const withBefore = (now: number, { added, removed }: { added: number; removed: number }) => ({
  ...{ before: now - added + removed, added, removed },
})

export const countEdgeEntries = async (db: Db, accountId: Uuid): Promise<number> =>
  (
    await one<{ entries: number }>(
      db,
      sql`
      select (select count(*) from edges where account_id = ${accountId})
        + (select count(*) from backends where account_id = ${accountId}) as entries`,
    )
  ).entries

async function rulesLeft(db: Db, accountId: Uuid, policies: readonly Id<'ipp'>[]): Promise<ReadonlyMap<Uuid, number>> {
  const rows = await many<{ id: Uuid; rules: number }>(
    db,
    sql`
    select ip_policy_id as id, count(*) as rules from ip_policy_rules
    where account_id = ${accountId} and ip_policy_id = any(${policies.map(toUuid)}) group by ip_policy_id`,
  )
  return new Map(rows.map(({ id, rules }) => [id, rules]))
}

const edgeEntries = new Set(['edgtcp', 'edghts', 'edghtsrt', 'bkdst', 'bkdwd', 'bkdfo', 'bkdhr'])
const prefixOf = (id: string) => id.split('_')[0] ?? ''
type Shown = { id?: string; routes?: readonly { id: string }[]; rules?: number; added?: number; removed?: number }
type Rule = { ip_policy: { id: Id<'ipp'> } }

/** Ignores what the same change creates and deletes. The routes of a deleted edge have no events of their own. */
function edgeEntriesIn(differences: readonly Difference[]): Counted {
  const [added, removed] = [new Set<string>(), new Set<string>()]
  const remove = (id: string) => added.delete(id) || removed.add(id)
  for (const { resource, before, after } of differences) {
    if (!edgeEntries.has(prefixOf(resource))) continue
    // Setting or removing a module has no id: it is a change of its edge or route.
    const [from, to] = [before as Shown | null, after as Shown | null]
    if (!from && to?.id) added.add(resource)
    if (from?.id && !to) for (const id of [resource, ...(from.routes ?? []).map((route) => route.id)]) remove(id)
  }
  return { added, removed }
}

function ruleCountsIn(differences: readonly Difference[]): Map<Id<'ipp'>, { added: number; removed: number }> {
  const counts = new Map<Id<'ipp'>, { added: number; removed: number }>()
  const count = (id: Id<'ipp'>, added: number, removed: number) => {
    const so = counts.get(id) ?? { added: 0, removed: 0 }
    counts.set(id, { added: so.added + added, removed: so.removed + removed })
  }
  for (const { resource, before, after } of differences) {
    if (prefixOf(resource) === 'ipr') {
      if (!before) count((after as Rule).ip_policy.id, 1, 0)
      if (!after) count((before as Rule).ip_policy.id, 0, 1)
    }
    // The event of a rule set contains only the number of rules.
    const { rules, added = 0, removed = 0 } = (after ?? {}) as Shown
    if (prefixOf(resource) === 'ipp' && rules !== undefined) count(resource as Id<'ipp'>, added, removed)
  }
  return counts
}
