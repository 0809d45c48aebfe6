import type { Db } from '../../db/pool.ts'
import { toId, type Uuid } from '../../kernel/ids.ts'
import { parseAddress } from '../../kernel/ip/address.ts'
import type { RestrictionType } from '../policies.ts'
import { decideEach, refusalIn } from '../refusal.ts'
import {
  type AccessTestRow,
  loadEnforced,
  loadRulesAbout,
  loadTargets,
  type PolicyAndAddress,
  type RulesAbout,
  type Target,
} from './load.ts'
import { routesOfPath } from './route_of_path.ts'

/** What would happen to the address now. `unknown`: it could not get there anyway. */
export type Outcome = {
  readonly outcome: 'allowed' | 'refused' | 'unknown'
  /** One sentence, for people. */
  readonly reason: string
}
export type Evaluated = { readonly test: AccessTestRow; readonly is: Outcome }

export const resultOf = ({ test, is }: Evaluated): 'passed' | 'failed' | 'unknown' => {
  if (is.outcome === 'unknown') return 'unknown'
  return is.outcome === test.expect ? 'passed' : 'failed'
}

/** What decides, in the order in which the edge or the service asks: all have to allow the address. */
type Step = { readonly by: string; readonly policies: readonly Uuid[] }

/** Reads four times, however many tests there are. To be called in a transaction. */
export async function evaluateTests(
  db: Db,
  accountId: Uuid,
  tests: readonly AccessTestRow[],
  now: number,
): Promise<Evaluated[]> {
  if (tests.length === 0) return []
  const atEdge = tests.filter(({ target_id }) => target_id)
  const targets = Map.groupBy(atEdge.length ? await loadTargets(db, accountId, atEdge) : [], ({ test }) => test)
  const types = [...new Set(tests.map(restrictionTypeOf))]
  const enforced = Map.groupBy(await loadEnforced(db, accountId, types), ({ type }) => type)
  const planned = tests.map((test) => {
    const steps = stepsAt(test, targets.get(test.id) ?? [])
    const ofAccount = (enforced.get(restrictionTypeOf(test)) ?? []).map(
      ({ id, policies }): Step => ({ by: toId('ipx', id), policies }),
    )
    // As at the edge: its own policies first, and those of other spellings last.
    return { test, steps: steps && [...steps.slice(0, 1), ...ofAccount, ...steps.slice(1)] }
  })
  const found = await rulesOf(
    db,
    accountId,
    planned.map(({ test, steps }) => ({ test, steps: steps ?? [] })),
    now,
  )
  return planned.map(({ test, steps }) => ({ test, is: steps ? decided(test, steps, found) : nowhere(test) }))
}

const restrictionTypeOf = ({ type }: AccessTestRow): RestrictionType =>
  type === 'edge' || type === 'route' ? 'endpoints' : type

/** The module's first, even if it is not set, then that of a route which guards other spellings. Undefined: there is no target. */
function stepsAt({ type, path }: AccessTestRow, targets: readonly Target[]): Step[] | undefined {
  if (type === 'api' || type === 'dashboard') return [{ by: '', policies: [] }]
  if (type === 'edge') {
    const [edge] = targets
    return edge && [moduleStep('edgtcp', edge)]
  }
  const { serving, guarding } = routesOfPath(targets, path ?? '/')
  return serving && [moduleStep('edghtsrt', serving), ...(guarding ? [moduleStep('edghtsrt', guarding)] : [])]
}

const moduleStep = (prefix: 'edgtcp' | 'edghtsrt', { id, policies }: Target): Step => ({
  by: policies ? toId(prefix, id as Uuid) : '',
  policies: policies ?? [],
})

const nowhere = ({ target_id, path }: AccessTestRow): Outcome => ({
  outcome: 'unknown',
  reason:
    target_id === null ? 'the edge or route that it is about is deleted' : `no route of the edge has the path ${path}`,
})

type Rules = (pair: PolicyAndAddress) => RulesAbout
const nameOf = ({ policy, address }: PolicyAndAddress) => `${policy} ${address}`

/** Each policy and address once. */
async function rulesOf(
  db: Db,
  accountId: Uuid,
  planned: readonly { test: AccessTestRow; steps: readonly Step[] }[],
  now: number,
): Promise<Rules> {
  const pairs = new Map<string, PolicyAndAddress>()
  for (const { test, steps } of planned)
    for (const policy of steps.flatMap(({ policies }) => policies)) {
      const pair = { policy, address: test.address }
      pairs.set(nameOf(pair), pair)
    }
  const rules = await loadRulesAbout(db, accountId, [...pairs.values()], now)
  const byName = new Map([...pairs.keys()].map((name, index) => [name, rules[index] as RulesAbout]))
  return (pair) => byName.get(nameOf(pair)) as RulesAbout
}

function decided({ address }: AccessTestRow, steps: readonly Step[], rulesOfPair: Rules): Outcome {
  const deciders = steps
    .filter(({ by }) => by)
    .map(({ by, policies }) => ({
      by,
      enforced: true,
      ids: policies,
      policies: policies.map((policy) => rulesOfPair({ policy, address })),
    }))
  const decisions = decideEach(deciders, parseAddress(address))
  const ruleIn = ({ policy, rule, policies }: (typeof decisions)[number]) =>
    policy !== undefined && rule !== undefined && policies[policy]?.ruleIds[rule]
  const refusing = refusalIn(decisions)
  if (refusing) {
    const rule = ruleIn(refusing)
    return {
      outcome: 'refused',
      reason: rule
        ? `${refusing.by} refuses it by the rule ${toId('ipr', rule)}`
        : `${refusing.by} refuses it because no rule of its policies allows it`,
    }
  }
  if (decisions.length === 0) return { outcome: 'allowed', reason: 'nothing restricts it' }
  const by = decisions.map((each) => {
    const rule = ruleIn(each)
    return rule ? `${each.by} by the rule ${toId('ipr', rule)}` : each.by
  })
  const shown = by.slice(0, 3).join(', ')
  return { outcome: 'allowed', reason: `allowed by ${shown}${by.length > 3 ? ` and ${by.length - 3} more` : ''}` }
}
