// The order of `gatehouse state sync`: nothing gets through half-way that would get through neither before nor after.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { Json, Rule, Thing } from '../../src/cli/state/kinds.ts'
import { narrowed } from '../../src/cli/state/narrow.ts'
import { type Plan, planState, replaceText, type Step } from '../../src/cli/state/plan.ts'
import { readState, type StateFile } from '../../src/cli/state/read.ts'
import { sized } from '../harness/thorough.ts'

const addresses = ['10.0.0.1', '10.0.1.1', '10.1.0.1', '192.0.2.1']
const ranges = ['10.0.0.0/8', '10.0.0.0/16', '10.0.0.0/24', '10.1.0.0/16', '10.0.0.1/32', '192.0.2.0/24', '0.0.0.0/0']
const paths = ['/', '/a', '/a/b']

const number = (address: string) => address.split('.').reduce((sum, part) => sum * 256 + Number(part), 0)
const matches = ({ cidr }: Rule, address: string) => {
  const [network = '', length] = cidr.split('/')
  const size = 2 ** (32 - Number(length))
  return Math.floor(number(address) / size) === Math.floor(number(network) / size)
}
/** As docs/guides/ip-policies.md says it, and in no other words than these. */
const lets = (rules: readonly Rule[], address: string) => {
  const found = rules.filter((rule) => matches(rule, address))
  return found.some(({ action }) => action === 'allow') && !found.some(({ action }) => action === 'deny')
}

const ruleSet = fc.uniqueArray(
  fc.record({ action: fc.constantFrom('allow', 'allow', 'deny'), cidr: fc.constantFrom(...ranges) }),
  { selector: ({ cidr }) => cidr, maxLength: 4 },
)

test('the intermediate rule set admits exactly the addresses that both sets admit', () => {
  fc.assert(
    fc.property(ruleSet, ruleSet, (before, after) => {
      const both = narrowed(before, after)
      assert.equal(new Set(both.map(({ cidr }) => cidr)).size, both.length)
      for (const address of addresses)
        assert.equal(lets(both, address), lets(before, address) && lets(after, address), address)
    }),
    { numRuns: sized(200, 2_000) },
  )
})

type Account = Map<string, Thing>
type Module = { enabled?: boolean; ip_policies: string[]; backend: string }

/** Who reaches what, of everything there is in this small world. */
function reach(account: Account): Set<string> {
  const things = [...account.values()]
  const allows = (policies: string[], address: string) =>
    lets(
      policies.flatMap((id) => account.get(id)?.rules ?? []),
      address,
    )
  const restrictions = things.filter(({ kind, fields }) => kind === 'ip_restrictions' && fields.enforced)
  const open = (fields: Json, address: string) => {
    const module = fields.ip_restriction as Module | undefined
    return (
      fields.backend !== undefined &&
      (!module || module.enabled === false || allows(module.ip_policies, address)) &&
      restrictions.every((restriction) => allows(restriction.fields.ip_policies as string[], address))
    )
  }
  const found = new Set<string>()
  for (const edge of things.filter(({ kind }) => kind.endsWith('_edges')))
    for (const hostport of (edge.fields.hostports ?? []) as string[])
      for (const address of addresses) {
        if (edge.kind === 'tcp_edges' && open(edge.fields, address)) found.add(`${address} → ${hostport}`)
        for (const path of edge.kind === 'https_edges' ? paths : []) {
          const route = (edge.routes ?? [])
            .filter(({ fields: { match } }) => match === '/' || path === match || path.startsWith(`${match}/`))
            .toSorted((a, b) => String(b.fields.match).length - String(a.fields.match).length)[0]
          if (route && open(route.fields, address)) found.add(`${address} → ${hostport}${path}`)
        }
      }
  return found
}

/** The bodies of requests as the API shows them. */
const shown = (body: Json): Json =>
  Object.fromEntries(
    Object.entries(body).map(([name, value]) => [
      name.replace('ip_policy_ids', 'ip_policies').replace('backend_id', 'backend'),
      value && typeof value === 'object' && !Array.isArray(value) ? shown(value as Json) : (value ?? undefined),
    ]),
  )

let made = 0
/** What the service does with a request. */
function obey(account: Account, step: Step, ids: Map<string, string>): void {
  const path = step.path.map((part) => ids.get(part) ?? part).join('')
  const body = shown(replaceText(step.body ?? {}, ids) as Json)
  const [, edgeId = ''] = /^\/edges\/https\/(\w+)\/routes/.exec(path) ?? []
  const owner = account.get(edgeId)
  const last = path.split('/').at(-1) ?? ''
  if (step.method === 'POST') {
    const id = `${{ ip_policies: 'ipp', backends: 'bkdst' }[step.thing.kind as string] ?? 'thing'}_${String(made++).padStart(26, '0')}`
    if (step.makes) ids.set(step.makes, id)
    const thing: Thing = { kind: step.thing.kind, name: '', id, fields: body, rules: [], routes: [] }
    if (owner) account.set(edgeId, { ...owner, routes: [...(owner.routes ?? []), thing] })
    else account.set(id, thing)
  } else if (step.method === 'PUT') {
    const id = path.split('/')[2] ?? ''
    account.set(id, { ...(account.get(id) as Thing), rules: body.rules as Rule[] })
  } else if (owner) {
    const change = (route: Thing) =>
      route.id !== last ? [route] : step.method === 'DELETE' ? [] : [{ ...route, fields: { ...route.fields, ...body } }]
    account.set(edgeId, { ...owner, routes: (owner.routes ?? []).flatMap(change) })
  } else if (step.method === 'DELETE') account.delete(last)
  else {
    const thing = account.get(last) as Thing
    account.set(last, { ...thing, fields: { ...thing.fields, ...body } })
  }
}

function follow(account: Account, { steps }: Plan, look: (account: Account, step: Step) => void): void {
  const ids = new Map<string, string>()
  for (const step of steps) {
    obey(account, step, ids)
    look(account, step)
  }
}

const policies = ['p', 'q']
const modules = {
  backend: fc.constant({ backend: 'app' }),
  ip_restriction: fc.option(
    fc.record({ enabled: fc.boolean(), ip_policies: fc.uniqueArray(fc.constantFrom(...policies), { minLength: 1 }) }),
    { nil: undefined },
  ),
}
const hostports = (port: number) =>
  fc.uniqueArray(fc.constantFrom(`x.example:${port}`, `y.example:${port}`), { maxLength: 2 })
const file = fc
  .record({
    p: ruleSet,
    q: ruleSet,
    restrictions: fc.array(
      fc.record({
        enforced: fc.boolean(),
        ip_policies: fc.uniqueArray(fc.constantFrom(...policies), { minLength: 1 }),
      }),
      { maxLength: 2 },
    ),
    tcp: fc.option(fc.record({ hostports: hostports(444), ...modules }), { nil: undefined }),
    web: fc.option(
      fc.record({
        hostports: hostports(443),
        routes: fc.uniqueArray(fc.record({ match: fc.constantFrom('/', '/a'), ...modules }), {
          selector: ({ match }) => match,
        }),
      }),
      { nil: undefined },
    ),
  })
  .map(({ p, q, restrictions, tcp, web }): StateFile => {
    const rules = (set: Rule[]) => set.map(({ action, cidr }) => `${action} ${cidr}`)
    return readState(
      JSON.stringify({
        gatehouse: 1,
        ip_policies: { p: { description: 'p', rules: rules(p) }, q: { description: 'q', rules: rules(q) } },
        backends: { app: { address: 'app:1' } },
        ip_restrictions: Object.fromEntries(
          restrictions.map((each, index) => [`r${index}`, { type: 'endpoints', description: `r${index}`, ...each }]),
        ),
        tcp_edges: tcp ? { tcp } : {},
        https_edges: web
          ? { web: { ...web, routes: web.routes.map((route) => ({ match_type: 'path_prefix', ...route })) } }
          : {},
      }),
    )
  })

/** One request changes which policies decide: it lets some in and others not, and where several do it matters. */
const isUnknowable = ({ steps }: Plan) => steps.some(({ stage, verb }) => stage === 'change' && verb === 'update')

test('during a sync, nothing gets through that neither the old nor the new state admits', () => {
  let looks = 0
  let plans = 0
  fc.assert(
    fc.property(file, file, (before, after) => {
      const account: Account = new Map()
      follow(account, planState(before, [], { deletes: true }), () => {})
      const plan = planState(after, [...account.values()], { deletes: true })
      fc.pre(!isUnknowable(plan))
      const allowed = reach(account)
      const goal: Account = new Map(account)
      follow(goal, plan, () => {})
      for (const one of reach(goal)) allowed.add(one)
      plans++
      follow(account, plan, (half, step) => {
        looks++
        for (const one of reach(half))
          assert.ok(allowed.has(one), `${one} after ${step.method} ${step.path.join('')} in ${step.stage}`)
      })
      // And it gets there: a fresh account that becomes the same lets the same through.
      const fresh: Account = new Map()
      follow(fresh, planState(after, [], { deletes: true }), () => {})
      assert.deepEqual([...reach(account)].toSorted(), [...reach(fresh)].toSorted())
      assert.deepEqual(planState(after, [...account.values()].map(normal), { deletes: true }).steps, [])
    }),
    { numRuns: sized(200, 1_500) },
  )
  console.log(`looked ${looks} times, in ${plans} plans`)
})

/** As it would be read again: without what has its default. */
const normal = (thing: Thing): Thing => ({
  ...thing,
  fields: JSON.parse(
    JSON.stringify(thing.fields, (name, value) =>
      (name === 'enabled' && value === true) ||
      (name === 'enforced' && value === false) ||
      (name === 'hostports' && value.length === 0)
        ? undefined
        : value,
    ),
  ),
  ...(thing.routes && { routes: thing.routes.map(normal) }),
})
