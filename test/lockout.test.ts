import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { after, test } from 'node:test'
import { promisify } from 'node:util'
import { one } from '../src/db/pool.ts'
import { sql } from '../src/db/sql.ts'
import { toUuid } from '../src/kernel/ids.ts'
import { seededRandom } from './deciders/cases.ts'
import { type Account, startControlPlane } from './harness/control_plane.ts'
import { behindProxy, callingFrom, from, policyWith, restrict } from './harness/ip.ts'
import { program } from './harness/program.ts'
import { signIn } from './harness/session.ts'
import { sized } from './harness/thorough.ts'
import { mutations, self, setStage, type Way } from './lockout/mutations.ts'

const plane = await startControlPlane({ after }, { processes: 2, env: behindProxy })
const names = Object.keys(mutations)
const run = promisify(execFile)

/** Carries out the mutations in this order, and sees after each that the caller is still let in. */
async function walk(order: readonly string[], way: Way): Promise<{ refused: number }> {
  const account = await plane.newAccount()
  const call = way === 'api' ? callingFrom(account, self) : await signIn(account, from(self))
  const stage = await setStage(call, way)
  let refused = 0
  for (const [step, name] of order.entries()) {
    const { status, body, text } = await (mutations[name] as (typeof mutations)[string])(call, stage, '')
    const so = `${order.slice(0, step + 1).join(', then ')}: ${status} ${text}`
    if (body?.error_code === 'ERR_SELF_LOCKOUT') {
      refused++
      assert.equal(body.details.source_ip, self, so)
    } else {
      // A rule that is gone, or a range that is taken: refused for another reason, and changed nothing either.
      assert.ok(status < 300 || status === 404 || body.error_code === 'ERR_CIDR_TAKEN', so)
    }
    assert.equal((await call('GET', '/caller', undefined, { process: step % 2 })).status, 200, so)
  }
  return { refused }
}

for (const [way, length] of [
  ['api', sized(60, 250)],
  ['dashboard', sized(30, 100)],
] as const) {
  test(`${way}: after ${length} random orders of six changes, and after every change in them, the caller who makes them is let in`, async () => {
    const seed = Number(process.env.GATEHOUSE_TEST_SEED ?? Math.floor(Date.now() / 86_400_000))
    const random = seededRandom(seed)
    const orders = Array.from({ length }, () => Array.from({ length: 6 }, () => names[random(names.length)] as string))
    const changes = orders.flat().length
    const counts: number[] = []
    const queue = orders.values()
    const worker = async () => {
      for (const order of queue) counts.push((await walk(order, way)).refused)
    }
    await Promise.all([worker(), worker(), worker(), worker()])
    const refused = counts.reduce((sum, count) => sum + count)
    console.log(`${way}, seed ${seed}: ${changes} changes, ${refused} of them refused as a lock-out`)
    assert.ok(refused > changes / 5 && refused < changes * 0.8, 'the orders try nothing')
  })
}

const nameOf = async ({ accountId }: Account) =>
  (
    await one<{ name: string }>(
      plane.db,
      sql`select name from accounts where id = ${toUuid(accountId as `ac_${string}`)}`,
    )
  ).name

const release = async (account: string, type = 'api') => {
  const { stdout } = await run(
    process.execPath,
    [program, 'ip-restrictions', 'release', '--type', type, '--account', account],
    {
      env: { ...process.env, GATEHOUSE_DATABASE_URL: plane.databaseUrl },
    },
  )
  return stdout
}

const locking = [
  'create an enforced restriction with their policy',
  'enforce the trial',
  'give the one in force their policy',
  'add a deny of myself to my policy',
  'move my rule elsewhere',
  'let my rule expire',
  'delete my rule',
  'empty my policy',
  'replace my policy by one that denies me',
]
for (const [index, name] of locking.entries()) {
  test(`'${name}' is refused and rolled back, unless allow_self_lockout=true; then a command on the server lets the caller in again`, async () => {
    const admin = await plane.newAccount()
    const call = callingFrom(admin, self)
    const stage = await setStage(call)
    const mutate = mutations[name] as (typeof mutations)[string]
    const shown = async () => [
      (await call('GET', '/ip_restrictions')).text,
      (await call('GET', '/ip_policy_rules')).text,
    ]
    const before = await shown()
    for (const query of ['', '?allow_self_lockout=false'])
      assert.equal((await mutate(call, stage, query)).body.error_code, 'ERR_SELF_LOCKOUT')
    assert.deepEqual(await shown(), before)
    const { status, text } = await mutate(call, stage, '?allow_self_lockout=true')
    assert.ok(status < 300, text)
    for (const process of [0, 1]) assert.equal((await call('GET', '/caller', undefined, { process })).status, 403)

    // By id and by name in turns: each start of the command takes half a second.
    const output = await release(index % 2 ? admin.accountId : await nameOf(admin))
    for (const process of [0, 1]) {
      const back = await call('GET', '/caller', undefined, { process })
      assert.equal(back.status, 200)
      assert.match(back.headers.get('service-warning') ?? '', /ip_restriction=ipx_/, 'what was enforced warns now')
    }
    const { body } = await call('GET', '/audit_events?operation=server.ip_restrictions.release')
    assert.ok(body.audit_events.length > 0)
    for (const { owner_id, source_ip, before, after, resource_id } of body.audit_events) {
      assert.deepEqual([owner_id, source_ip, before.enforced, after.enforced], [null, null, true, false])
      assert.match(output, new RegExp(`${resource_id} now warns`))
    }
  })
}

test('release affects one type of one account, and says when there is nothing to release', async () => {
  const [admin, other] = [await plane.newAccount(), await plane.newAccount()]
  const enforcedOf = async (account: Account) =>
    (await account('GET', '/ip_restrictions')).body.ip_restrictions.map(
      ({ enforced }: { enforced: boolean }) => enforced,
    )
  for (const account of [admin, other]) {
    const ip_policy_ids = [await policyWith(account, 'allow 127.0.0.1')]
    for (const type of ['agent', 'api']) await restrict(account, { type, enforced: true, ip_policy_ids })
  }
  await release(admin.accountId)
  assert.deepEqual(await enforcedOf(admin), [false, true])
  assert.deepEqual(await enforcedOf(other), [true, true])
  assert.match(await release(admin.accountId), /enforces no IP restriction of type api/)
  await assert.rejects(release('no-account'), /there is no account/)
  await assert.rejects(release(admin.accountId, 'everything'), /--type/)
})

const races = sized(40, 100)
test(`two changes at once, each harmless alone, never lock the caller out, ${races} times`, async () => {
  const outcomes: Record<string, number> = {}
  const worker = async () => {
    const call = callingFrom(await plane.newAccount(), self)
    const { body: policy } = await call('POST', '/ip_policies', {})
    const { uri } = await restrict(call, { ip_policy_ids: [policy.id] })
    for (let round = 0; round < races / 4; round++) {
      const { body: rule } = await call('POST', '/ip_policy_rules', {
        ip_policy_id: policy.id,
        action: 'allow',
        cidr: self,
      })
      const statuses = await Promise.all([
        call('DELETE', rule.uri, undefined, { process: round % 2 }),
        call('PATCH', uri, { enforced: true }, { process: 1 - (round % 2) }),
      ])
      const outcome = statuses.map(({ status }) => status).join(' ')
      outcomes[outcome] = (outcomes[outcome] ?? 0) + 1
      assert.ok(['204 409', '409 200'].includes(outcome), outcome)
      assert.equal((await call('GET', '/caller')).status, 200)
      await call('PATCH', uri, { enforced: false })
      await call('DELETE', rule.uri)
    }
  }
  await Promise.all([worker(), worker(), worker(), worker()])
  console.log('rule deleted and restriction enforced at once:', outcomes)
})
