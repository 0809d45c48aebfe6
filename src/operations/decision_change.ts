import { Type } from 'typebox'
import { raisePolicyRevision, refuseSelfLockout } from '../access/self_lockout.ts'
import {
  type Broken,
  everyTest,
  type Judging,
  judged,
  noTest,
  refusalOf,
  sentenceOf,
  type Touched,
} from '../access/tests/judge.ts'
import { type Db, run } from '../db/pool.ts'
import { nothing, type SqlFragment, sql } from '../db/sql.ts'
import { isSet } from '../http/route.ts'
import { Closed } from '../http/wire.ts'
import { forbidden } from '../kernel/errors.ts'
import { type Id, newUuid, toId, toUuid, type Uuid } from '../kernel/ids.ts'
import { canonicalCidr } from '../kernel/ip/canonical_cidr.ts'
import { recordChange } from './audit.ts'
import type { Guard, GuardedRequest } from './resource.ts'

/** Query of every change that can break an access test. */
export const IgnoreTestsQuery = Closed({
  ignore_access_tests: Type.Optional(
    Type.Boolean({
      description:
        'Make the change even if it breaks access tests. Only for admins. The audit has an event for each test that it breaks.',
    }),
  ),
})

/** Query of changes that can also block the caller's own address. */
const DecisionQuery = Closed({
  allow_self_lockout: Type.Optional(
    Type.Boolean({
      description:
        'Make the change even if it blocks the address of this request from the API, or from the dashboard session in use.',
    }),
  ),
  ...IgnoreTestsQuery.properties,
})

const ignoring = 'ignore_access_tests'

/** Refuses a change that breaks an access test, or audits it if an admin ignores the tests. */
export function judgingOf(request: GuardedRequest, touched: Touched): Judging {
  const { caller, clock, query, origin } = request
  const isIgnoring = isSet(query, ignoring)
  if (isIgnoring && caller.role !== 'admin')
    throw forbidden(
      'Only admins can ignore access tests. Repeat the request without ignore_access_tests, or ask an admin.',
    )
  return {
    ...{ accountId: caller.accountId, now: clock(), touched },
    refuse(broken) {
      if (!isIgnoring) throw refusalOf(broken)
    },
    async note(tx, broken) {
      for (const each of broken) await noteIgnored(tx, origin, each)
    },
  }
}

/** Deletes a test whose edge or route was deleted, because it can never pass or fail again. */
export async function noteIgnored(tx: Db, origin: GuardedRequest['origin'], broken: Broken): Promise<void> {
  const { id, type, target_id } = broken.test
  const isGone = target_id === null && (type === 'edge' || type === 'route')
  if (isGone) await run(tx, sql`delete from access_tests where account_id = ${origin.accountId} and id = ${id}`)
  await recordChange(tx, origin, {
    resourceId: toId('act', id),
    before: { expect: broken.test.expect },
    after: { outcome: broken.is.outcome, ignored_access_tests: true, reason: sentenceOf(broken) },
  })
}

/**
 * Wraps every change of restrictions, their policies and rules. Raising the revision first locks the account's row,
 * which serializes such changes, so that each is checked against the result of the previous one.
 */
export const decisionGuard = (touchedBy: (request: GuardedRequest) => Touched): Guard => ({
  query: DecisionQuery,
  errors: ['ERR_SELF_LOCKOUT', 'ERR_ACCESS_TEST_FAILED'],
  transaction: (request, change) =>
    judged(request.db, judgingOf(request, touchedBy(request)), async (tx) => {
      const { caller, origin, query, clock } = request
      await raisePolicyRevision(tx, caller)
      const result = await change(tx)
      if (!isSet(query, 'allow_self_lockout')) await refuseSelfLockout(tx, caller, origin.sourceIp, clock())
      return result
    }),
})

/** Fields that decide about addresses; the others are annotations. */
const decisive = ['cidr', 'action', 'expires_at']

/** `touchedBy`: tests that the change may affect, judged before and after it. */
export const ruleGuard = decisionGuard(({ caller, params: { id }, body }) => {
  const fields = (body ?? {}) as { cidr?: string; ip_policy_id?: Id<'ipp'> }
  const { cidr, ip_policy_id } = fields
  if (!id) {
    const range = cidr === undefined ? sql`false` : sql`t.address <<= ${canonicalCidr(cidr)}::cidr`
    return ip_policy_id ? sql`(${range} and ${decidedBy(caller, sql`${toUuid(ip_policy_id)}`)})` : range
  }
  if (body && !decisive.some((field) => field in fields)) return noTest
  const its = sql`(select r.ip_policy_id from ip_policy_rules r where r.account_id = ${caller.accountId} and r.id = ${toUuid(id)})`
  const ranges = sql`(${inRules(sql`r.id = ${toUuid(id)}`)} ${cidr === undefined ? nothing : sql`or t.address <<= ${canonicalCidr(cidr)}::cidr`})`
  return sql`(${ranges} and ${decidedBy(caller, its)})`
})
export const someRulesGuard = decisionGuard(({ body }) =>
  inRules(sql`r.id = any(${(body as { rule_ids: readonly Id<'ipr'>[] }).rule_ids.map(toUuid)})`),
)
/** The changed ranges become known only during the change. */
export const ruleSetGuard = decisionGuard(({ caller, params: { id } }) =>
  id ? decidedBy(caller, sql`${toUuid(id)}`) : everyTest,
)

const inRules = (condition: SqlFragment): SqlFragment => sql`t.address <<= any (
  select r.cidr from ip_policy_rules r where r.account_id = t.account_id and ${condition})`

/**
 * Tests of everything that the policy is attached to. All routes of an edge count, because they decide together which
 * route a path belongs to.
 */
const decidedBy = ({ accountId }: GuardedRequest['caller'], policy: SqlFragment): SqlFragment => sql`(
  case when t.type in ('edge', 'route') then 'endpoints' else t.type end in (
    select x.type from ip_restriction_policies a
      join ip_restrictions x on x.account_id = a.account_id and x.id = a.ip_restriction_id
    where a.account_id = ${accountId} and a.ip_policy_id = ${policy})
  or t.target_id in (
    select e.id from edge_module_policies m
      join edges own on own.account_id = m.account_id and own.id = m.edge_id
      join edges e on e.account_id = own.account_id and (e.id = own.id or e.parent_id = own.parent_id)
    where m.account_id = ${accountId} and m.ip_policy_id = ${policy}))`

export const restrictionGuard = decisionGuard(({ params: { id }, body }) => {
  const type = id
    ? sql`(select x.type from ip_restrictions x where x.account_id = t.account_id and x.id = ${toUuid(id)})`
    : sql`${(body as { type: string }).type}`
  return sql`case when t.type in ('edge', 'route') then 'endpoints' else t.type end = ${type}`
})

/**
 * Wraps changes to how an edge decides. All its routes count, because they decide together which route a path belongs
 * to.
 */
export const edgeGuard = (verbs: NonNullable<Guard['verbs']>): Guard => ({
  query: IgnoreTestsQuery,
  errors: ['ERR_ACCESS_TEST_FAILED'],
  verbs,
  transaction: (request, change) => judged(request.db, judgingOf(request, testsOf(edgeIn(request))), change),
})

const edgeIn = ({ params }: GuardedRequest): Uuid =>
  toUuid(params.edge_id ?? (params.id as NonNullable<typeof params.id>))

const testsOf = (edge: Uuid): Touched => sql`t.target_id in (
  select e.id from edges e where e.account_id = t.account_id and (e.id = ${edge} or e.parent_id = ${edge}))`

/** A new test gets a later id than one generated now. */
const testItself = ({ params: { id } }: GuardedRequest): Touched =>
  id ? sql`t.id = ${toUuid(id)}` : sql`t.id > ${newUuid()}`

/** Wraps changes to the tests themselves. */
export const testGuard: Guard = {
  query: IgnoreTestsQuery,
  errors: ['ERR_ACCESS_TEST_FAILED'],
  transaction: (request, change) =>
    judged(request.db, { ...judgingOf(request, testItself(request)), isOfTests: true }, change),
}
