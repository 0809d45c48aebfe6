import { admit } from '../../src/access/admission.ts'
import { createEvaluate } from '../../src/access/decisions.ts'
import { createHitBuffer } from '../../src/access/evidence/hit_buffer.ts'
import { createOutcomeBuffer } from '../../src/access/evidence/outcome_buffer.ts'
import { createRuleHitBuffer } from '../../src/access/evidence/rule_hit_buffer.ts'
import { many, one } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import type { Caller } from '../../src/identity/caller.ts'
import { systemClock } from '../../src/kernel/clock.ts'
import { type Id, newId, toUuid, type Uuid } from '../../src/kernel/ids.ts'
import type { Account, ControlPlane } from '../harness/control_plane.ts'
import { policyWith } from '../harness/ip.ts'
import { randomBelow } from '../harness/random.ts'

type Rule = { id: Uuid; action: 'allow' | 'deny'; first: number; length: number }
type Set = { enforced: boolean; policies: Rule[][] }

/** 10.0.0.0/16, so that ranges nest, touch and miss one another. */
const base = 10 * 2 ** 24
const written = (value: number) => [24, 16, 8, 0].map((shift) => (value >>> shift) & 255).join('.')
function drawLines(): string[] {
  const ranges = new Map<string, string>()
  for (let index = 0; index < 30; index++) {
    const prefixLength = 18 + randomBelow(15)
    const size = 2 ** (32 - prefixLength)
    const range = `${written(base + randomBelow(2 ** 16 / size) * size)}/${prefixLength}`
    ranges.set(range, randomBelow(3) === 0 ? `deny ${range}` : `allow ${range}`)
  }
  return [...ranges.values()]
}

/** The deciding rule as the glossary has it, by looking at every rule of every policy. */
function deciding({ enforced, policies }: Set, address: number) {
  const matches = policies.map((rules) =>
    rules
      .filter(({ first, length }) => address >= first && address < first + length)
      .toSorted((a, b) => a.length - b.length),
  )
  for (const action of ['deny', 'allow'] as const)
    for (const ofPolicy of matches) {
      // Within a policy a deny wins over its allows, so an allow decides only where no policy denies.
      const rule = ofPolicy.find((each) => each.action === action)
      if (rule) return { rule: rule.id, outcome: action === 'allow' ? 'allowed' : enforced ? 'refused' : 'warned' }
    }
  return undefined
}

async function rulesOf({ db }: ControlPlane, policy: string): Promise<Rule[]> {
  const rows = await many<{ id: Uuid; action: 'allow' | 'deny'; first: number; bits: number }>(
    db,
    sql`
    select id, action, (host(cidr)::inet - '0.0.0.0'::inet)::bigint as first, masklen(cidr) as bits
    from ip_policy_rules where ip_policy_id = ${toUuid(policy as Id<'ipp'>)}`,
  )
  return rows.map(({ bits, ...rule }) => ({ ...rule, length: 2 ** (32 - bits) }))
}

const callerOf = (admin: Account, policyRevision: number): Caller => ({
  accountId: toUuid(admin.accountId as Id<'ac'>),
  ownerId: admin.adminId as Id<'usr'>,
  role: 'admin',
  apiKeyId: newId('ak'),
  apiKeyExpiresAt: null,
  apiKeyRotatedAt: null,
  approvalRequiredFor: [],
  tokenReplaced: false,
  traffic: 'api',
  requestsPerMinute: null,
  policyRevision,
  restricted: true,
  scopes: ['*'],
  allowedCidrs: [],
})

/**
 * Puts that many calls through the admission of the API and compares what is in the database for each rule with an exact
 * count. Resolves to what differs.
 */
export async function replayDecisions(plane: ControlPlane, calls: number) {
  const admin = await plane.newAccount()
  const sets: Set[] = []
  // The enforced one last: it refuses us, too.
  for (const enforced of [false, true]) {
    const ids = [await policyWith(admin, ...drawLines()), await policyWith(admin, ...drawLines())]
    await admin('POST', '/ip_restrictions?allow_self_lockout=true', { type: 'api', enforced, ip_policy_ids: ids })
    sets.push({ enforced, policies: await Promise.all(ids.map((id) => rulesOf(plane, id))) })
  }
  const { policy_revision } = await one<{ policy_revision: number }>(
    plane.db,
    sql`select policy_revision from accounts where id = ${toUuid(admin.accountId as Id<'ac'>)}`,
  )
  let lost = 0
  const onLost = (hits: number) => {
    lost += hits
  }
  const ruleHitBuffer = createRuleHitBuffer(plane.db, onLost)
  const parts = {
    evaluate: createEvaluate(plane.db, systemClock, 64 << 20),
    // What is known of refused addresses is not asked here, and so is never written.
    hitBuffer: createHitBuffer(plane.db, () => {}),
    ruleHitBuffer,
    outcomeBuffer: createOutcomeBuffer(plane.db, () => {}),
    clock: systemClock,
  }
  const caller = callerOf(admin, policy_revision)
  const addresses = Array.from({ length: 5_000 }, () => base + randomBelow(2 ** 16))
  const expected = new Map<string, number>()
  const decided = new Map(addresses.map((address) => [address, sets.map((set) => deciding(set, address))]))
  const call = { caller, operation: 'caller.get', operationId: newId('op') }
  for (let turn = 0; turn < calls; turn++) {
    const value = addresses[randomBelow(addresses.length)] as number
    await admit(parts, { ...call, source: { family: 4, value } })
    for (const decision of decided.get(value) ?? []) {
      const key = decision && `${decision.rule} ${decision.outcome}`
      if (key) expected.set(key, (expected.get(key) ?? 0) + 1)
    }
    if (turn % 50_000 === 0) await ruleHitBuffer.flush()
  }
  await ruleHitBuffer.flush()
  const rows = await many<Record<'rule' | 'outcome', string> & { count: number }>(
    plane.db,
    sql`
    select ip_policy_rule_id as rule, outcome, count from ip_rule_hits
      cross join lateral (values ('allowed', allowed), ('refused', refused), ('warned', warned)) as c (outcome, count)
    where account_id = ${caller.accountId} and count > 0`,
  )
  const counted = new Map(rows.map(({ rule, outcome, count }) => [`${rule} ${outcome}`, count]))
  const faults = [...new Set([...expected.keys(), ...counted.keys()])].filter(
    (key) => expected.get(key) !== counted.get(key),
  )
  const decisions = [...expected.values()].reduce((sum, count) => sum + count, 0)
  return {
    rules: counted.size,
    decisions,
    lost,
    faults: faults.map((key) => `${key}: ${counted.get(key)} counted, ${expected.get(key)} made`),
  }
}
