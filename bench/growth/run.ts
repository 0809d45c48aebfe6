// Every list and report of an account with many rows beside one with few, in turns, through the API.

import { type Spread, shown, spreadOf } from '../harness/statistics.ts'
import { createWorld } from '../harness/world.ts'
import { type Grown, growAccount } from './seed.ts'

type Call = (account: Grown) => { path: string; body?: string }
const get =
  (path: (account: Grown) => string): Call =>
  (account) => ({ path: path(account) })

const impactOf = (policy: string) => ({
  path: `/ip_policies/${policy}/impact`,
  body: JSON.stringify({ rules: [{ cidr: '10.0.0.0/12', action: 'allow' }] }),
})

const calls: Record<string, Call> = {
  'keys, a page': get(() => '/api_keys?limit=100'),
  'audit, a page': get(() => '/audit_events?limit=100'),
  'audit by operation': get(() => '/audit_events?limit=100&operation=api_keys.update'),
  'audit by resource': get(() => '/audit_events?limit=100&resource_id=ak_7'),
  'audit by operation and resource that never meet': get(
    () => '/audit_events?limit=100&operation=ip_restrictions.delete&resource_id=ak_7',
  ),
  'audit in the order of commits': get(() => '/audit_events?limit=100&order=committed'),
  refusals: get(() => '/ip_refusals?limit=100'),
  rules: get(() => '/ip_policy_rules?limit=100'),
  'rules of a policy': get(({ rules }) => `/ip_policy_rules?limit=100&ip_policy_id=${rules}`),
  'deliveries of a webhook': get(({ destination }) => `/webhook_destinations/${destination}/deliveries?limit=100`),
  'activity of 24 hours': get(() => '/ip_activity?hours=24'),
  'activity of 720 hours': get(() => '/ip_activity?hours=720'),
  warnings: get(({ restriction }) => `/ip_restrictions/${restriction}/warnings?limit=100`),
  // The smaller account has fewer addresses that edges refused in a week, but as many that called the API: 10,000.
  'impact of a rule set': ({ policy }) => impactOf(policy),
  'impact of a rule set, on calls of the API alone': ({ apiPolicy }) => impactOf(apiPolicy),
}

type Measured = { small: Spread; large: Spread; ratio: number }
export type GrowthOutcome = { rows: { small: number; large: number }; calls: Record<string, Measured> }
/** A page or report may take this much longer with a hundred times the rows. */
const goal = 1.5

/** `only`: those whose name contains it. */
export async function measureGrowth(rounds = 31, rows = 1_000_000, only = ''): Promise<GrowthOutcome> {
  const wanted = Object.entries(calls).filter(([name]) => name.includes(only))
  if (wanted.length === 0)
    throw new Error(`no list or report contains '${only}', only ${Object.keys(calls).join(', ')}`)
  const world = await createWorld({ keys: 0 })
  try {
    const large = await growAccount(world.db, 'large', rows)
    const small = await growAccount(world.db, 'small', 10_000)
    await world.db.query({ text: 'vacuum analyze' })
    const { origin } = await world.gatehouse()
    const outcome: GrowthOutcome = { rows: { small: small.rows, large: large.rows }, calls: {} }
    for (const [name, call] of wanted) {
      const times = { small: [] as number[], large: [] as number[] }
      // The first ones find nothing in memory and no prepared statement.
      for (let round = -8; round < rounds; round++)
        for (const [size, account] of round % 2
          ? ([
              ['small', small],
              ['large', large],
            ] as const)
          : ([
              ['large', large],
              ['small', small],
            ] as const)) {
          const took = await timeOf(origin, account.token, call(account))
          if (round >= 0) times[size].push(took)
        }
      const [few, many] = [spreadOf(times.small), spreadOf(times.large)]
      outcome.calls[name] = { small: few, large: many, ratio: many.median / few.median }
    }
    return outcome
  } finally {
    await world.end()
  }
}

async function timeOf(origin: string, token: string, { path, body }: ReturnType<Call>): Promise<number> {
  const began = performance.now()
  const response = await fetch(origin + path, {
    method: body === undefined ? 'GET' : 'POST',
    headers: {
      authorization: `Bearer ${token}`,
      'service-version': '2',
      ...(body !== undefined && { 'content-type': 'application/json' }),
    },
    ...(body !== undefined && { body }),
  })
  const text = await response.text()
  if (response.status !== 200) throw new Error(`${path}: ${response.status} ${text.slice(0, 300)}`)
  return performance.now() - began
}

export function printGrowth({ rows, calls }: GrowthOutcome): void {
  console.log(
    `milliseconds with ${rows.small} and with ${rows.large} rows: median (quartiles); goal: a ratio of ${goal}`,
  )
  for (const [name, { small, large, ratio }] of Object.entries(calls))
    console.log(
      `${name.padEnd(50)} ${shown(small, 1).padStart(20)} ${shown(large, 1).padStart(20)} ${ratio.toFixed(2).padStart(6)}${ratio > goal ? '  over' : ''}`,
    )
}
