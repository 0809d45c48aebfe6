import { type Db, one, run } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { transaction } from '../../db/transaction.ts'
import { maxJsonBytes } from '../../http/body.ts'
import { route } from '../../http/route.ts'
import { Closed, Wait } from '../../http/wire.ts'
import type { Caller } from '../../identity/caller.ts'
import { invalidField, notFound } from '../../kernel/errors.ts'
import { giveWay } from '../../kernel/give_way.ts'
import { type Id, newUuid, toId, toUuid } from '../../kernel/ids.ts'
import { canonicalCidr } from '../../kernel/ip/canonical_cidr.ts'
import { canonicalExpiry } from '../../kernel/time.ts'
import { newAnnotations, shownAnnotations } from '../../operations/annotations.ts'
import { record } from '../../operations/change.ts'
import { decisionGuard, LockoutQuery } from '../../operations/decision_change.ts'
import { findIpPolicy } from '../ip_policies/store.ts'
import { beginRuleChange, permitRuleChange } from './routes.ts'
import { formatRuleText, readRuleText, ruleTextLimitBytes, type SentRule, type TextRuleSet } from './rule_text.ts'
import { RuleSet, RuleSetReplaced, RuleSetShown } from './schema.ts'
import { everyRuleOf, type IpPolicyRuleRow } from './store.ts'

const batchSize = 5_000
/** How many go through JavaScript before others get their turn: some milliseconds. */
const sliceSize = 1_000

/** How a route reads a rule set: small ones as JSON, and any as text. */
export const ruleSetBody = {
  bodyLimitBytes: maxJsonBytes,
  otherBodies: { 'text/plain': { limitBytes: ruleTextLimitBytes, read: readRuleText } },
}

/** What a PUT reads and a GET shows. */
const path = '/ip_policies/:id/rules'

export const ruleSetRoutes = [
  route({
    operation: 'ip_policies.rules',
    summary:
      'Get all rules of an IP policy. Returns JSON or, with `Accept: text/plain`, the text format that PUT accepts',
    method: 'GET',
    path,
    params: { id: 'ipp' },
    success: 200,
    response: RuleSetShown,
    otherResponses: { 'text/plain': formatRuleText },
    slices: ruleSetSlices,
    access: 'anyone',
    heavy: 'rule_set',
    async handle({ db, caller, params }) {
      const rules: RuleSetShown['rules'] = []
      const found = await transaction(db, async (tx) => {
        if (!(await findIpPolicy(tx, caller, params.id, false))) return false
        for await (const batch of everyRuleOf(tx, caller, params.id)) {
          for (const row of batch) rules.push(toRuleOfSet(row))
        }
        return true
      })
      if (!found) throw notFound('ipp')
      return { body: { ip_policy_id: params.id, rules } }
    },
  }),
  route({
    operation: 'ip_policies.replace_rules',
    summary:
      'Replace all rules of an IP policy. Accepts JSON, or text lines of the form `allow|deny CIDR # description`',
    method: 'PUT',
    path,
    params: { id: 'ipp' },
    query: Closed({ ...LockoutQuery.properties, wait: Wait }),
    body: RuleSet,
    ...ruleSetBody,
    success: 200,
    response: RuleSetReplaced,
    access: 'anyone',
    heavy: 'rule_set',
    async beforeLargeBody({ db, caller, params }) {
      if (!(await findIpPolicy(db, caller, params.id, false))) throw notFound('ipp')
      await permitRuleChange(db, caller, params.id)
    },
    errors: ['ERR_FORBIDDEN', 'ERR_SELF_LOCKOUT'],
    async handle(request) {
      const { db, caller, params, body, uri } = request
      const rules = await toNewRules(body as RuleSet | TextRuleSet)
      return transaction(db, async (tx) => {
        // Before anything is held: other changes of the account's policies wait for the rest of this.
        await sendRules(tx, rules)
        return decisionGuard.around(tx, request, async () => {
          if (!(await beginRuleChange(tx, caller, params.id))) throw notFound('ipp')
          const counts = await replaceRules(tx, caller, params.id, rules.length)
          const { added, changed, removed } = counts
          const body = { ip_policy: { id: params.id, uri: uri(`/ip_policies/${params.id}`) }, ...counts }
          if (!added && !changed && !removed) return { body }
          const generation = await record(tx, request.origin, {
            resourceId: params.id,
            // The rules themselves are not in the event: a hundred thousand of them would be in every one.
            before: { rules: counts.rules - added + removed },
            after: counts,
            records: [`policy.${params.id}`],
          })
          return { body, generation }
        })
      })
    },
  }),
]

const toRuleOfSet = (row: IpPolicyRuleRow): RuleSetShown['rules'][number] => ({
  id: toId('ipr', row.id),
  cidr: canonicalCidr(row.cidr),
  action: row.action,
  ...shownAnnotations(row),
  ...(row.expires_at !== null && { expires_at: row.expires_at }),
})

/** `{"ip_policy_id": …, "rules": [ … ]}`, some rules at a time. */
function* ruleSetSlices({ ip_policy_id, rules }: RuleSetShown): Generator<string> {
  yield `{"ip_policy_id":${JSON.stringify(ip_policy_id)},"rules":[`
  for (let start = 0; start < rules.length; start += sliceSize) {
    const slice = rules.slice(start, start + sliceSize).map((rule) => JSON.stringify(rule))
    yield (start > 0 ? ',' : '') + slice.join(',')
  }
  yield ']}'
}

/** Canonical, and refused when two stand for the same range. */
export async function toNewRules(set: RuleSet | TextRuleSet): Promise<readonly SentRule[]> {
  const lineOf = 'lineOf' in set ? set.lineOf : undefined
  const place = (index: number) => (lineOf ? `line ${lineOf[index]}` : `rules[${index}].cidr`)
  const firstWith = new Map<string, number>()
  const rules = 'lineOf' in set ? set.rules : await Array.fromAsync(set.rules, fromJson)
  for (const [index, { cidr }] of rules.entries()) {
    if (index % sliceSize === sliceSize - 1) await giveWay()
    const first = firstWith.get(cidr)
    if (first !== undefined) throw invalidField(place(index), `repeats the range of ${place(first)} (${cidr})`)
    firstWith.set(cidr, index)
  }
  return rules
}

async function fromJson(rule: RuleSet['rules'][number], index: number): Promise<SentRule> {
  if (index % sliceSize === sliceSize - 1) await giveWay()
  return {
    cidr: canonicalCidr(rule.cidr),
    action: rule.action,
    expires_at: canonicalExpiry(rule.expires_at),
    ...newAnnotations(rule),
    keepsMetadata: false,
  }
}

/** Puts the new rules where the database can compare them with the present ones. */
async function sendRules(tx: Db, rules: readonly SentRule[]): Promise<void> {
  // Its keys bound every plan: one that expects a few rules and loops over 100,000 then looks each of them up, instead of
  // reading all of the others each time. Planners know little of an account's first large policy (docs/adr/0038).
  await run(
    tx,
    sql`create temporary table sent_rules
        (place int primary key, id uuid, cidr cidr unique, action text, description text, metadata text,
         expires_at timestamptz(3), keeps_metadata boolean) on commit drop`,
  )
  for (let start = 0; start < rules.length; start += sliceSize) {
    const batch = rules.slice(start, start + sliceSize)
    await giveWay()
    await run(
      tx,
      sql`
      insert into sent_rules
      select * from unnest(
        ${batch.map((_, index) => start + index)}::int[], ${batch.map(() => newUuid())}::uuid[],
        ${batch.map((rule) => rule.cidr)}::cidr[], ${batch.map((rule) => rule.action)}::text[],
        ${batch.map((rule) => rule.description)}::text[], ${batch.map((rule) => rule.metadata)}::text[],
        ${batch.map((rule) => rule.expires_at)}::timestamptz[], ${batch.map((rule) => rule.keepsMetadata)}::boolean[])`,
    )
  }
  await run(tx, sql`analyze sent_rules`)
}

type Counts = { rules: number; added: number; changed: number; removed: number }

/** Rules that stay keep their id and creation time: only what differs is written, and later sent to edges. */
async function replaceRules(tx: Db, { accountId }: Caller, policyId: Id<'ipp'>, rules: number): Promise<Counts> {
  const policy = toUuid(policyId)
  const inPolicy = sql`r.account_id = ${accountId} and r.ip_policy_id = ${policy}`
  await run(
    tx,
    sql`
    update sent_rules s set metadata = r.metadata from ip_policy_rules r
    where ${inPolicy} and r.metadata is not null and r.cidr = s.cidr and r.action = s.action and s.keeps_metadata`,
  )
  const { count: removed } = await one<{ count: number }>(
    tx,
    sql`
    with removed as (
      delete from ip_policy_rules r
      where ${inPolicy} and not exists (select from sent_rules s where s.cidr = r.cidr and s.action = r.action)
      returning 1)
    select count(*) from removed`,
  )
  // What stays as it is must not be touched: an upsert that changes nothing still locks and so writes every row.
  await run(
    tx,
    sql`
    delete from sent_rules s using ip_policy_rules r
    where ${inPolicy} and r.cidr = s.cidr
      and (r.description, r.metadata, r.expires_at) is not distinct from (s.description, s.metadata, s.expires_at)`,
  )
  const counts = { rules, added: 0, changed: 0, removed }
  // In batches: all at once took 2.5 s, half of what a statement may take, and on a busy machine more than that.
  for (let start = 0; start < rules; start += batchSize) {
    const { added, changed } = await one<{ added: number; changed: number }>(
      tx,
      sql`
      with written as (
        insert into ip_policy_rules as r (account_id, id, ip_policy_id, cidr, action, description, metadata, expires_at)
        select ${accountId}, id, ${policy}, cidr, action, description, metadata, expires_at from sent_rules
        where place >= ${start} and place < ${start + batchSize} order by place
        on conflict on constraint ip_policy_rules_cidr_unique do update
          set description = excluded.description, metadata = excluded.metadata, expires_at = excluded.expires_at
        returning (xmax = 0) as is_new)
      select count(*) filter (where is_new) as added, count(*) filter (where not is_new) as changed from written`,
    )
    counts.added += added
    counts.changed += changed
  }
  return counts
}
