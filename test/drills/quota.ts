// `npm run drill -- quota <seconds>`: a member with one key stores as much as it can for a minute: the growth of the
// database, what was refused, and the p99 of another account. The account ends within its quotas, what it stores stops
// growing, and the other's 99th percentile stays below 100 ms.
import { one } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { quotaKinds } from '../../src/kernel/quotas.ts'
import { percentile, startBystander } from '../harness/bystander.ts'
import type { Client } from '../harness/client.ts'
import { startControlPlane } from '../harness/control_plane.ts'
import { drill } from '../harness/drill.ts'
import { putRules } from '../harness/ip.ts'
import { pause } from '../harness/poll.ts'
import { newUser } from '../harness/principals.ts'

const seconds = Number(process.argv[2] ?? 60)
const boundMs = 100
const rulesAtOnce = 100_000

/** Small enough to be reached. */
const smallQuotas = {
  GATEHOUSE_IP_POLICY_RULES_PER_ACCOUNT: '200000',
  GATEHOUSE_IP_POLICIES_PER_ACCOUNT: '100',
  GATEHOUSE_API_KEYS_PER_ACCOUNT: '200',
  GATEHOUSE_BACKENDS_PER_ACCOUNT: '200',
  GATEHOUSE_HTTPS_EDGES_PER_ACCOUNT: '200',
  GATEHOUSE_DOMAINS_PER_ACCOUNT: '200',
}
const metadata = 'm'.repeat(4_000)
const creations: [path: string, body: (count: number) => object][] = [
  ['/api_keys', () => ({ metadata })],
  ['/backends/static', (count) => ({ address: `b${count}.internal:80`, metadata })],
  ['/edges/https', () => ({ metadata })],
  ['/reserved_domains', (count) => ({ domain: `d${count}.example`, metadata })],
]

const lines = (net: number) =>
  Array.from(
    { length: rulesAtOnce },
    (_, i) => `allow ${10 + (net % 200)}.${i >> 16}.${(i >> 8) & 255}.${i & 255} # ${'customer '.repeat(22)}${i}`,
  )

function mib(bytes: number): string {
  return `${(bytes / 1024 / 1024).toFixed(1)} MiB`
}

await drill(async (scope) => {
  const plane = await startControlPlane(scope, { env: { GATEHOUSE_REQUESTS_PER_MINUTE: '6000', ...smallQuotas } })
  const [admin, bystander] = [await plane.newAccount(), await plane.newAccount()]
  const member = await newUser(plane, admin)
  const sizes = () =>
    one<{ database: number; audit: number }>(
      plane.db,
      sql`
      select pg_database_size(current_database()) as database,
        (select sum(pg_total_relation_size(inhrelid)) from pg_inherits where inhparent = 'audit_events'::regclass) as audit`,
    )
  const watch = () =>
    startBystander({ origin: plane.processes[0]?.origin ?? '', token: bystander.token, path: '/caller' })
  const endQuiet = watch()
  await pause(3_000)
  const quiet = await endQuiet()
  const before = await sizes()
  const end = watch()
  const until = performance.now() + seconds * 1_000
  const answers = new Map<string, number>()
  const note = ({ status, body }: { status: number; body: { error_code?: string; details?: { kind?: string } } }) => {
    const what = [status, body?.error_code, body?.details?.kind].filter(Boolean).join(' ')
    answers.set(what, (answers.get(what) ?? 0) + 1)
    return status
  }
  let fullAfter: number | undefined
  let sizeWhenFull = Number.POSITIVE_INFINITY

  await Promise.all([storeRules(), storeSmallThings()])
  const experience = await end()
  const after = await sizes()
  const { body } = await admin('GET', '/caller')
  const quotas = Object.entries(body.quotas as Record<string, { used: number; limit: number }>)
  const beyond = quotas.filter(([, { used, limit }]) => used > limit)

  console.log(`${seconds} s, one key of a member:`)
  for (const [what, count] of [...answers].toSorted()) console.log(`  ${count} × ${what}`)
  for (const [kind, { used, limit }] of quotas.filter(([, { used }]) => used > 10))
    console.log(`  ${used} of ${limit} ${quotaKinds[kind as keyof typeof quotaKinds].called}`)
  const grown = after.database - before.database
  const ofAudit = after.audit - before.audit
  console.log(
    `database: ${mib(before.database)} before, ${mib(after.database)} after: ${mib(grown)} more, ${mib(ofAudit)} of it audit`,
  )
  const sinceFull = after.database - sizeWhenFull - ofAudit
  if (fullAfter === undefined) console.log('the quota of rules was not reached: run it for longer')
  else
    console.log(
      `the quota of rules was reached after ${fullAfter.toFixed(0)} s; ${mib(sinceFull)} more since, without the audit`,
    )
  const [p50, p99, max] = [0.5, 0.99, 1].map((share) => percentile(experience, share))
  console.log(
    `another account's GET /caller: p50 ${p50?.toFixed(1)} ms, p99 ${p99?.toFixed(1)} ms, max ${max?.toFixed(1)} ms of ${experience.latencies.length}, ${experience.failures.length} failed; before, with nothing else: p99 ${percentile(quiet, 0.99).toFixed(1)} ms`,
  )
  const stopped = fullAfter !== undefined && sinceFull < 32 * 1024 * 1024
  return beyond.length === 0 && stopped && experience.failures.length === 0 && (p99 ?? Number.NaN) < boundMs

  async function storeRules(): Promise<void> {
    for (let net = 0; performance.now() < until; net++) {
      const policy = await member('POST', '/ip_policies', {})
      if (note(policy) !== 201) await pause(100)
      else if (note(await putRules(member, policy.body.id, lines(net))) === 409 && fullAfter === undefined) {
        fullAfter = seconds - (until - performance.now()) / 1_000
        sizeWhenFull = (await sizes()).database
      }
    }
  }

  async function storeSmallThings(): Promise<void> {
    for (let count = 0; performance.now() < until; count++) {
      const created = creations.map(([path, bodyOf]) => send(member, path, bodyOf(count)))
      if ((await Promise.all(created)).some((status) => status === 429)) await pause(500)
    }
  }

  async function send(as: Client, path: string, body: object): Promise<number> {
    return note(await as('POST', path, body))
  }
})
