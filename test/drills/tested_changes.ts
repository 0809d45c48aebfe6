// `npm run drill -- tested-changes <rounds>`: what a change of a rule costs an account with 200 access tests, beside an account without, in
// processor time of the service and of PostgreSQL. The two take turns. Fails if a change costs three times as much or more.
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { many } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { type Account, startControlPlane } from '../harness/control_plane.ts'
import { drill } from '../harness/drill.ts'
import { make, newHttpsEdge, newRoute } from '../harness/fixtures.ts'
import { policyWith, restrict } from '../harness/ip.ts'

const rounds = Number(process.argv[2] ?? 10)
const changesAtOnce = 50
const [ranges, tests, mostTimes] = [100, 200, 3]

const ticksOf = async (pid: number): Promise<number> => {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return Number(fields[11] ?? 0) + Number(fields[12] ?? 0)
}

/** Every rule decides at the API and at a route; `tested` addresses are within 10.0.0.0/8. */
async function stage(as: Account, tested: number) {
  const { source_ip } = (await as('GET', '/caller')).body
  const lines = Array.from({ length: ranges }, (_, index) => `allow 10.${index}.0.0/16`)
  const policy = await policyWith(as, `allow ${source_ip}`, 'allow 10.0.0.0/8', ...lines)
  await restrict(as, { type: 'api', enforced: true, ip_policy_ids: [policy] })
  const module = { ip_restriction: { ip_policy_ids: [policy] } }
  const edge = await newHttpsEdge(as)
  const route = await newRoute(as, { match_type: 'path_prefix', match: '/', ...module }, edge)
  for (let index = 0; index < tested; index++) {
    const address = `10.${index % ranges}.0.${index % 250}`
    const target = index % 2 ? { type: 'api' } : { type: 'route', route_id: route.id, path: `/part/${index}` }
    await make(as, '/access_tests', { address, target, expect: 'allowed' })
  }
  const { rules } = (await as('GET', `/ip_policies/${policy}/rules`)).body
  const ruleAt = (range: string): string => rules.find(({ cidr }: { cidr: string }) => cidr === range).id
  return { as, wide: ruleAt('10.0.0.0/8'), narrow: ruleAt('10.7.0.0/16') }
}
type Stage = Awaited<ReturnType<typeof stage>>

const expiry = (index: number) => ({ expires_at: `20${40 + (index % 2)}-01-01T00:00:00Z` })
const kinds: Record<string, (stage: Stage, index: number) => readonly [rule: string, body: object]> = {
  'the description of a rule': ({ narrow }, index) => [narrow, { description: `number ${index}` }],
  'the expiry of a rule about 2 tested addresses': ({ narrow }, index) => [narrow, expiry(index)],
  'the expiry of a rule about all tested addresses': ({ wide }, index) => [wide, expiry(index)],
}

await drill(async (scope) => {
  const plane = await startControlPlane(scope)
  const [without, withTests] = [await stage(await plane.newAccount(), 0), await stage(await plane.newAccount(), tests)]
  const service = plane.processes[0]?.child.pid ?? 0
  let made = 0
  const used = async () => {
    const backends = await many<{ pid: number }>(
      plane.db,
      sql`select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`,
    )
    const ticks = await Promise.all([service, ...backends.map(({ pid }) => pid)].map(ticksOf))
    return ticks.reduce((sum, each) => sum + each, 0)
  }
  /** Milliseconds for a change. */
  async function cost(on: Stage, kind: string): Promise<number> {
    const before = await used()
    for (let index = 0; index < changesAtOnce; index++) {
      const [rule, body] = kinds[kind]?.(on, made++) ?? assert.fail()
      const { status, text } = await on.as('PATCH', `/ip_policy_rules/${rule}`, body)
      assert.equal(status, 200, text)
    }
    return ((await used()) - before) * (10 / changesAtOnce)
  }
  let isCheap = true
  for (const kind of Object.keys(kinds)) {
    await cost(without, kind)
    await cost(withTests, kind)
    const pairs: { bare: number; tested: number }[] = []
    for (let round = 0; round < rounds; round++)
      pairs.push(
        round % 2
          ? { bare: await cost(without, kind), tested: await cost(withTests, kind) }
          : await cost(withTests, kind).then(async (tested) => ({ tested, bare: await cost(without, kind) })),
      )
    const spread = (of: (pair: (typeof pairs)[number]) => number): string => {
      const sorted = pairs.map(of).toSorted((a, b) => a - b)
      const [low, middle, high] = [0, sorted.length >> 1, sorted.length - 1].map((at) => (sorted[at] ?? 0).toFixed(2))
      return `${middle} (${low} to ${high})`
    }
    const times = pairs.map(({ bare, tested }) => tested / bare).toSorted((a, b) => a - b)
    isCheap &&= (times[times.length >> 1] ?? 0) <= mostTimes
    console.log(
      `${kind}: ${spread(({ bare }) => bare)} ms without tests, ${spread(({ tested }) => tested)} ms with ${tests}: ${spread(({ bare, tested }) => tested / bare)} times`,
    )
  }
  return isCheap
})
