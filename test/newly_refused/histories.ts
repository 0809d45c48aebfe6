import assert from 'node:assert/strict'
import { writeOutcomes } from '../../src/access/evidence/address_outcomes.ts'
import { one } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { type Id, toUuid } from '../../src/kernel/ids.ts'
import { seededRandom } from '../deciders/cases.ts'
import type { Answer } from '../harness/client.ts'
import type { Account, ControlPlane } from '../harness/control_plane.ts'
import { newTcpEdge } from '../harness/fixtures.ts'
import { from } from '../harness/ip.ts'
import { poll } from '../harness/poll.ts'
import {
  expectedList,
  isRefused,
  type OracleRule,
  type Place,
  type State,
  type Step,
  subjectOf,
  type Traffic,
} from './oracle.ts'

const addresses = ['10.0.0.1', '10.0.0.2', '10.0.1.1', '11.0.0.1', '2001:db8::1', '2001:db8:1::1']
const ranges = [
  '10.0.0.1/32',
  '10.0.0.0/24',
  '10.0.0.0/8',
  '11.0.0.0/8',
  '0.0.0.0/0',
  '2001:db8::/32',
  '2001:db8::1/128',
  '::/0',
]
const places = ['api', 'endpoints'] as const

/**
 * A random history of one account, by the API: changes of rules, rule sets, policies, restrictions and a module, and calls
 * and connections in between. Resolves to what differs from the oracle.
 */
export async function playHistory(plane: ControlPlane, seed: number): Promise<{ listed: number; faults: string[] }> {
  const history = await new History(plane, await plane.newAccount(), seed).begin()
  await history.play()
  return history.compare()
}

class History {
  private readonly random: (below: number) => number
  private readonly state: State = { policies: new Map(), restrictions: new Map(), module: undefined }
  private readonly steps: Step[] = []
  private readonly traffic: Traffic[] = []
  private edge = ''
  /** Allows the caller that makes the changes, and is attached everywhere. */
  private own = ''
  private readonly plane: ControlPlane
  private readonly admin: Account

  constructor(plane: ControlPlane, admin: Account, seed: number) {
    this.plane = plane
    this.admin = admin
    this.random = seededRandom(seed)
  }

  private pick<T>(values: readonly T[]): T {
    return values[this.random(values.length)] as T
  }

  async begin(): Promise<this> {
    this.edge = (await newTcpEdge(this.admin)).id
    this.own = await this.newPolicy([{ cidr: '127.0.0.0/8', action: 'allow', expired: false }])
    await this.newPolicy(this.randomRules())
    await this.newPolicy(this.randomRules())
    return this
  }

  async play(): Promise<void> {
    const changes = [
      () => this.createRule(),
      () => this.createRule(),
      () => this.deleteRule(),
      () => this.moveRule(),
      () => this.replaceRules(),
      () => this.replaceRules(),
      () => this.removeRules(),
      () => this.createRestriction(),
      () => this.createRestriction(),
      () => this.toggleRestriction(),
      () => this.attachOthers(),
      () => this.deleteRestriction(),
      () => this.setModule(),
      () => this.setModule(),
      () => this.swapPolicy(),
      () => this.expireRule(),
    ]
    await this.sendTraffic(12)
    for (let round = 0; round < 8; round++) {
      await this.pick(changes)()
      await this.sendTraffic(this.random(6))
    }
  }

  async compare(): Promise<{ listed: number; faults: string[] }> {
    const expected = expectedList(this.steps, this.traffic)
    const format = (list: Map<string, string>) => [...list].map((each) => each.join(': ')).sort()
    const wanted = format(expected)
    let shown: string[] = []
    const read = async () => {
      shown = format(await this.shown())
      return shown.join() === wanted.join()
    }
    try {
      // Outcomes are written every second.
      await poll(read, Boolean, { withinSeconds: 20, everyMs: 500 })
      return { listed: shown.length, faults: [] }
    } catch {
      return { listed: shown.length, faults: [`expected ${wanted.join(', ')}; shown ${shown.join(', ')}`] }
    }
  }

  /** In pages of random size. */
  private async shown(): Promise<Map<string, string>> {
    const shown = new Map<string, string>()
    let next: string | null = `/newly_refused_addresses?limit=${1 + this.random(5)}`
    while (next) {
      const { status, body, text }: Answer = await this.admin('GET', next)
      assert.equal(status, 200, text)
      for (const { ip, type, target, cause } of body.newly_refused_addresses) {
        assert.equal(target?.id, type === 'endpoints' ? this.edge : undefined)
        assert.ok(!shown.has(subjectOf(type, ip)), 'each once')
        shown.set(subjectOf(type, ip), cause.audit_event?.operation_id ?? cause.kind)
      }
      next = body.next_page_uri
    }
    return shown
  }

  private async sendTraffic(count: number): Promise<void> {
    for (let i = 0; i < count; i++) {
      const [place, ip] = [this.pick(places), this.pick(addresses)]
      const refused = isRefused(this.state, place, ip)
      if (place === 'api') {
        const { status } = await this.admin('GET', '/caller', undefined, from(ip))
        assert.equal(status, refused ? 403 : 200, `${ip} decided otherwise than expected`)
      } else {
        const outcome = refused ? 'refused' : 'allowed'
        await writeOutcomes(this.plane.db, [{ targetId: toUuid(this.edge as Id), ip, outcome, at: Date.now() }])
      }
      this.traffic.push({ subject: subjectOf(place, ip), refused })
    }
  }

  /** A change that the service refuses, because it would shut out who makes it, changes nothing. */
  private async change(method: string, path: string, body: unknown, apply: (answer: Answer) => void): Promise<Answer> {
    const before = this.decisions()
    const answer = await this.admin(method, path, body)
    assert.ok(answer.status < 300 || answer.body.error_code === 'ERR_SELF_LOCKOUT', answer.text)
    if (answer.status < 300) apply(answer)
    this.steps.push({ cause: await this.lastOperation(), before, after: this.decisions() })
    return answer
  }

  private async lastOperation(): Promise<string> {
    const accountId = toUuid(this.admin.accountId as Id)
    const { operation_id } = await one<{ operation_id: string }>(
      this.plane.db,
      sql`select operation_id from audit_events where account_id = ${accountId} order by position desc limit 1`,
    )
    return operation_id
  }

  private decisions(): Map<string, boolean> {
    return new Map(
      places.flatMap((place) =>
        addresses.map((ip) => [subjectOf(place, ip), isRefused(this.state, place, ip)] as const),
      ),
    )
  }

  private randomRules(): OracleRule[] {
    return ranges
      .filter(() => this.random(3) === 0)
      .map((cidr) => ({ cidr, action: this.randomAction(cidr), expired: false }))
  }
  private randomAction(cidr: string): 'allow' | 'deny' {
    return cidr === '0.0.0.0/0' || this.random(3) ? 'allow' : 'deny'
  }
  private rulesOf(policy: string): OracleRule[] {
    return this.state.policies.get(policy) ?? []
  }
  private anyPolicy(): string {
    return this.pick([...this.state.policies.keys()].filter((id) => id !== this.own))
  }
  private anySet(): string[] {
    const others = [...this.state.policies.keys()].filter((id) => id !== this.own && this.random(2))
    return [this.own, ...others]
  }

  private async newPolicy(rules: OracleRule[]): Promise<string> {
    const { body } = await this.admin('POST', '/ip_policies', {})
    this.state.policies.set(body.id, [])
    await this.put(body.id, rules)
    return body.id
  }

  private put(policy: string, rules: OracleRule[]): Promise<Answer> {
    const sent = rules.map(({ cidr, action }) => ({ cidr, action }))
    return this.change('PUT', `/ip_policies/${policy}/rules`, { rules: sent }, () =>
      this.state.policies.set(
        policy,
        sent.map((rule) => ({ ...rule, expired: false })),
      ),
    )
  }

  private replaceRules = () => this.put(this.anyPolicy(), this.randomRules())

  private async createRule(expiresAt?: string): Promise<OracleRule | undefined> {
    const policy = this.anyPolicy()
    const free = ranges.filter((cidr) => !this.rulesOf(policy).some((rule) => rule.cidr === cidr))
    if (free.length === 0) return undefined
    const cidr = this.pick(free)
    const rule = { cidr, action: this.randomAction(cidr), expired: false }
    const body = { ip_policy_id: policy, cidr, action: rule.action, ...(expiresAt && { expires_at: expiresAt }) }
    const { status } = await this.change('POST', '/ip_policy_rules', body, () => this.rulesOf(policy).push(rule))
    return status === 201 ? rule : undefined
  }

  private async expireRule(): Promise<void> {
    const at = Date.now() + 3_000
    const rule = await this.createRule(new Date(at).toISOString())
    assert.ok(Date.now() < at - 200, 'the machine is too slow for this history')
    if (!rule) return
    await this.sendTraffic(2)
    assert.ok(Date.now() < at - 200, 'the machine is too slow for this history')
    await poll(() => Date.now() > at + 100)
    const before = this.decisions()
    rule.expired = true
    this.steps.push({ cause: 'expiry', before, after: this.decisions() })
  }

  /** A rule as the API has it, with what the oracle has of it. */
  private async anyRule() {
    const policy = this.anyPolicy()
    const { body } = await this.admin('GET', `/ip_policy_rules?ip_policy_id=${policy}`)
    const shown = this.pick(body.ip_policy_rules as { id: string; cidr: string }[])
    const rule = this.rulesOf(policy).find(({ cidr }) => cidr === shown?.cidr)
    return rule && { id: shown.id, policy, rule }
  }

  private async deleteRule(): Promise<void> {
    const found = await this.anyRule()
    if (!found) return
    const { id, policy, rule } = found
    await this.change('DELETE', `/ip_policy_rules/${id}`, undefined, () => this.drop(policy, [rule]))
  }
  private drop(policy: string, rules: OracleRule[]): void {
    this.state.policies.set(
      policy,
      this.rulesOf(policy).filter((rule) => !rules.includes(rule)),
    )
  }

  private async moveRule(): Promise<void> {
    const found = await this.anyRule()
    if (!found) return
    const free = ranges.filter((cidr) => !this.rulesOf(found.policy).some((rule) => rule.cidr === cidr))
    if (free.length === 0) return
    const cidr = this.pick(free)
    await this.change('PATCH', `/ip_policy_rules/${found.id}`, { cidr }, () => Object.assign(found.rule, { cidr }))
  }

  private async removeRules(): Promise<void> {
    const policy = this.anyPolicy()
    const { body } = await this.admin('GET', `/ip_policy_rules?ip_policy_id=${policy}`)
    const some = (body.ip_policy_rules as { id: string; cidr: string }[]).filter(() => this.random(2))
    if (some.length === 0) return
    const sent = { rule_ids: some.map(({ id }) => id) }
    await this.change('POST', `/ip_policies/${policy}/remove_rules`, sent, () =>
      this.drop(
        policy,
        this.rulesOf(policy).filter(({ cidr }) => some.some((each) => each.cidr === cidr)),
      ),
    )
  }

  private async createRestriction(): Promise<void> {
    const fields = { type: this.pick(places) as Place, enforced: this.random(4) > 0 }
    const policies = this.anySet()
    const body = { ...fields, ip_policy_ids: policies }
    await this.change('POST', '/ip_restrictions', body, (answer) =>
      this.state.restrictions.set(answer.body.id, { ...fields, policies }),
    )
  }
  private anyRestriction(): string | undefined {
    return this.pick([...this.state.restrictions.keys()])
  }
  private async updateRestriction(fields: { enforced: boolean } | { policies: string[] }): Promise<void> {
    const id = this.anyRestriction()
    const known = id && this.state.restrictions.get(id)
    if (!known) return
    const body = 'policies' in fields ? { ip_policy_ids: fields.policies } : fields
    await this.change('PATCH', `/ip_restrictions/${id}`, body, () => Object.assign(known, fields))
  }
  private toggleRestriction = () => this.updateRestriction({ enforced: this.random(2) === 0 })
  private attachOthers = () => this.updateRestriction({ policies: this.anySet() })
  private async deleteRestriction(): Promise<void> {
    const id = this.anyRestriction()
    if (!id) return
    await this.change('DELETE', `/ip_restrictions/${id}`, undefined, () => this.state.restrictions.delete(id))
  }

  private async setModule(): Promise<void> {
    const path = `/edges/tcp/${this.edge}/ip_restriction`
    const policies = this.anySet()
    const enabled = this.random(4) > 0
    if (this.state.module && this.random(3) === 0)
      await this.change('DELETE', path, undefined, () => {
        this.state.module = undefined
      })
    else
      await this.change('PUT', path, { enabled, ip_policy_ids: policies }, () => {
        this.state.module = enabled ? policies : undefined
      })
  }

  /** Attaches a new policy in place of another one, which is deleted. */
  private async swapPolicy(): Promise<void> {
    const old = this.anyPolicy()
    const fresh = await this.newPolicy(this.randomRules())
    const swapped = (ids: string[]) => [...new Set(ids.map((id) => (id === old ? fresh : id)))]
    for (const [id, restriction] of this.state.restrictions) {
      const policies = swapped(restriction.policies)
      const body = { ip_policy_ids: policies }
      await this.change('PATCH', `/ip_restrictions/${id}`, body, () => Object.assign(restriction, { policies }))
    }
    const path = `/edges/tcp/${this.edge}/ip_restriction`
    const { body } = await this.admin('GET', path)
    if (Array.isArray(body.ip_policies)) {
      const policies = swapped(body.ip_policies.map(({ id }: { id: string }) => id))
      await this.change('PUT', path, { enabled: body.enabled, ip_policy_ids: policies }, () => {
        if (this.state.module) this.state.module = policies
      })
    }
    const isUsed = [...this.state.restrictions.values()].some(({ policies }) => policies.includes(old))
    if (!isUsed) await this.change('DELETE', `/ip_policies/${old}`, undefined, () => this.state.policies.delete(old))
  }
}

/** Plays as many, some at a time. Prints the seeds, so that a fault can be seen again. */
export async function playHistories(plane: ControlPlane, first: number, count: number, atOnce: number) {
  const faults: string[] = []
  let [next, listed] = [first, 0]
  const worker = async () => {
    while (next < first + count) {
      const seed = next++
      try {
        const played = await playHistory(plane, seed)
        listed += played.listed
        faults.push(...played.faults.map((fault) => `seed ${seed}: ${fault}`))
      } catch (error) {
        faults.push(`seed ${seed}: ${error instanceof Error ? error.message : error}`)
      }
    }
  }
  await Promise.all(Array.from({ length: atOnce }, worker))
  return { listed, faults }
}
