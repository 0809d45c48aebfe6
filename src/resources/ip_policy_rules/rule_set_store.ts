import {
  forgetOldRuleSets,
  noteRules,
  type RuleSetChange,
  type RuleSetPart,
} from '../../access/evidence/rule_set_changes.ts'
import { arrayText, longArrayText } from '../../db/array_text.ts'
import { type Db, later, one, run, toRfc3339 } from '../../db/pool.ts'
import { nothing, type SqlFragment, sql } from '../../db/sql.ts'
import { yieldToEventLoop } from '../../kernel/flow/yield_to_event_loop.ts'
import { type Id, newUuid, toUuid, type Uuid } from '../../kernel/ids.ts'
import { canonicalCidr } from '../../kernel/ip/canonical_cidr.ts'
import type { Action } from '../../kernel/ip/ranges.ts'
import type { Quotas } from '../../kernel/quotas.ts'
import type { Extent } from '../../kernel/unusual_change.ts'
import { withinQuota } from '../../operations/quota.ts'
import type { NewRules } from './rule_set.ts'
import { compareRules } from './rule_set_difference.ts'
import type { SentRule } from './rule_text.ts'
import type { NewRule } from './store.ts'

/** Rules per statement: a few milliseconds of this process, and well below the statement time-out. */
const writtenAtOnce = 2_000
const readAtOnce = 5_000
/** Smaller, because a rule's metadata can be 4 KiB. */
const readAtOnceWithMetadata = 500
/** With more changes, processes that have compiled the policy recompile it completely anyway. */
const maxNoted = 500

type Policy = { accountId: Uuid; id: Uuid }
type Counts = { rules: number; added: number; changed: number; removed: number }
/** `cidrs`: ranges of all added, changed or removed rules, unless there are too many. */
type Replaced<Judged> = { counts: Counts; cidrs: string[] | undefined; judged: Judged }

/**
 * Writes only differences, which are then sent to edges; unchanged rules keep their id and creation time. The caller
 * has locked the policy, so its rules do not change meanwhile.
 */
export async function replaceRules<Judged>(
  tx: Db,
  change: RuleSetChange,
  policyId: Id<'ipp'>,
  sent: NewRules,
  { quotas, beforeWriting }: { quotas: Quotas; beforeWriting: (extent: Extent) => Judged },
): Promise<Replaced<Judged>> {
  const policy = { accountId: change.accountId, id: toUuid(policyId) }
  const saysMetadata = sent.rules.some(({ keepsMetadata }) => !keepsMetadata)
  const { removed, replaced, changed, added } = await compareRules(storedRules(tx, policy, saysMetadata), sent)
  const written = [...changed, ...added]
  const judged = beforeWriting({
    ...{ of: 'ip_policy_rules', resource: policyId, before: sent.rules.length - added.length + removed.length },
    ...{ added: added.length, removed: removed.length },
  })
  const write = async () => {
    // Removes first: another rule may take the same range.
    await inBatches(tx, removed, (batch) => deleteOf(policy, batch))
    for (const keeps of [true, false])
      await inBatches(
        tx,
        changed.filter(({ keepsMetadata }) => keepsMetadata === keeps),
        (batch) => updateOf(policy, batch, keeps),
      )
    await inBatches(tx, added, (batch) => insertOf(policy, batch))
    await note(tx, change, policy.id, 'removed', removed)
    await note(tx, change, policy.id, 'replaced', replaced)
    await note(tx, change, policy.id, 'added', written)
    await forgetOldRuleSets(tx, change)
  }
  const claim = { kind: 'ip_policy_rules', added: added.length - removed.length, quotas } as const
  if (written.length || removed.length) await withinQuota(tx, change, claim, write)
  return {
    counts: { rules: sent.rules.length, added: added.length, changed: changed.length, removed: removed.length },
    cidrs: fewRanges([...removed, ...written]),
    judged,
  }
}

function fewRanges(rules: readonly NewRule[]): string[] | undefined {
  // A rule whose action changed occurs twice.
  if (rules.length > 2 * maxNoted) return undefined
  const cidrs = new Set(rules.map(({ cidr }) => cidr))
  return cidrs.size > maxNoted ? undefined : [...cidrs]
}

type Columns = {
  count: number
  last: string | null
  cidrs: string[]
  actions: Action[]
  descriptions: (string | null)[]
  metadata: (string | null)[]
  expiries: (string | null)[]
}

/** Returns many rules in one row, because the driver is slow with many rows. The metadata is null unless requested. */
async function* storedRules(tx: Db, policy: Policy, withMetadata: boolean): AsyncGenerator<NewRule[]> {
  const atOnce = withMetadata ? readAtOnceWithMetadata : readAtOnce
  for (let after: string | null = null; ; ) {
    const { count, last, cidrs, actions, descriptions, metadata, expiries }: Columns = await one<Columns>(
      tx,
      sql`
      select count(*), max(cidr)::cidr::text as last, coalesce(json_agg(cidr::text), '[]') as cidrs,
        json_agg(action) as actions, json_agg(description) as descriptions,
        json_agg(${withMetadata ? sql`metadata` : sql`null::text`}) as metadata, json_agg(expires_at::text) as expiries
      from (
        select * from ip_policy_rules r where ${inPolicy(policy)} ${after === null ? nothing : sql`and cidr > ${after}::cidr`}
        order by cidr limit ${atOnce}) batch`,
    )
    yield cidrs.map((cidr, index) => ({
      // PostgreSQL's IPv4 spelling is canonical already.
      cidr: cidr.includes(':') ? canonicalCidr(cidr) : cidr,
      action: actions[index] as Action,
      description: descriptions[index] ?? null,
      metadata: metadata[index] ?? null,
      expires_at: orRfc3339(expiries[index] ?? null),
    }))
    if (count < atOnce) return
    after = last
  }
}

const orRfc3339 = (text: string | null): string | null => (text === null ? null : toRfc3339(text))

const inPolicy = ({ accountId, id }: Policy): SqlFragment => sql`r.account_id = ${accountId} and r.ip_policy_id = ${id}`

/** Prepares the next batch while one is being written. */
async function inBatches<Rule>(
  tx: Db,
  rules: readonly Rule[],
  statementOf: (batch: readonly Rule[]) => SqlFragment,
): Promise<void> {
  let writing: Promise<void> = Promise.resolve()
  for (let start = 0; start < rules.length; start += writtenAtOnce) {
    const statement = statementOf(rules.slice(start, start + writtenAtOnce))
    await writing
    writing = run(tx, statement)
    // Awaited above or below; this only prevents an unhandled rejection.
    writing.catch(() => {})
    await yieldToEventLoop()
  }
  await writing
}

/**
 * Looks up each range by the unique key. With an equality, PostgreSQL may read every rule and compare it with every
 * range (docs/adr/0080).
 */
const deleteOf = (policy: Policy, batch: readonly NewRule[]): SqlFragment => sql`
  delete from ip_policy_rules where ctid = any(array(
    select found.ctid
    from unnest(${arrayText(batch.map(({ cidr }) => cidr))}::cidr[]) as removed (range) cross join lateral (
      select r.ctid from ip_policy_rules r
      where ${inPolicy(policy)} and r.cidr >= removed.range and r.cidr <= removed.range
      order by r.cidr limit 1) found))`

const insertOf = ({ accountId, id }: Policy, batch: readonly SentRule[]): SqlFragment => sql`
  insert into ip_policy_rules as r (account_id, ip_policy_id, id, cidr, action, description, metadata, expires_at)
  select ${accountId}, ${id}, * from unnest(${arrayText(batch.map(() => newUuid()))}::uuid[],
    ${column(batch, 'cidr')}::cidr[], ${column(batch, 'action')}::text[], ${column(batch, 'description')}::text[],
    ${column(batch, 'metadata')}::text[], ${column(batch, 'expires_at')}::timestamptz[])`

/** Also uses the unique key, because the plan of a join would depend on estimates. */
const updateOf = (policy: Policy, batch: readonly SentRule[], keepsMetadata: boolean): SqlFragment => sql`
  ${insertOf(policy, batch)}
  on conflict on constraint ip_policy_rules_cidr_unique do update
  set description = excluded.description, expires_at = excluded.expires_at
    ${keepsMetadata ? nothing : sql`, metadata = excluded.metadata`}`

/** Null if all values are null: `unnest` fills the column with nulls beside longer ones. */
function column(batch: readonly SentRule[], name: keyof NewRule): string | null {
  const values = batch.map((rule) => rule[name])
  return values.every((value) => value === null) ? null : arrayText(values)
}

async function note(
  tx: Db,
  change: RuleSetChange,
  policy: Uuid,
  part: RuleSetPart,
  rules: readonly NewRule[],
): Promise<void> {
  const from = sql`
    unnest(${await longArrayText(rules, ({ cidr }) => cidr)}::cidr[], ${await longArrayText(rules, ({ action }) => action)}::text[],
      ${await longArrayText(rules, ({ expires_at }) => expires_at)}::timestamptz[]) as noted (cidr, action, expires_at)`
  await later(tx, noteRules(change, policy, part, from))
}
