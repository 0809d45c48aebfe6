import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { from, policyWith, putRules, restrict } from './harness/ip.ts'
import { sharedControlPlane } from './harness/shared_control_plane.ts'
import { printed, sized } from './harness/thorough.ts'

const plane = await sharedControlPlane({ after })
const guest = '192.0.2.7'
const self = 'allow 127.0.0.1'
const times = sized(200, 1_000)

type Account = Awaited<ReturnType<typeof plane.newAccount>>
type Through = { process: number }
/** Lets the guest in, or shuts it out. */
type Change = (wanted: {
  allowed: boolean
  round: number
  through: Through
}) => Promise<{ status: number; text: string }>

/**
 * Changes what decides through one process, and asks through the other right after. A request that is under way
 * meanwhile may be answered either way, but must not leave anything behind that the next one is judged by.
 */
async function rounds(count: number, prepare: (admin: Account) => Promise<Change>): Promise<void> {
  const atOnce = 4
  const worker = async () => {
    const admin = await plane.newAccount()
    const change = await prepare(admin)
    for (let round = 0; round < count / atOnce; round++) {
      const allowed = round % 2 === 0
      const asked = { process: Math.floor(round / 2) % 2 }
      const ask = () => admin('GET', '/caller', undefined, { ...from(guest), ...asked })
      const [changed] = await Promise.all([change({ allowed, round, through: { process: 1 - asked.process } }), ask()])
      assert.ok(changed.status < 300, changed.text)
      assert.equal((await ask()).status, allowed ? 200 : 403, `round ${round}`)
    }
  }
  await Promise.all(Array.from({ length: atOnce }, worker))
}

const enforced = (admin: Account, ...ip_policy_ids: string[]) => restrict(admin, { enforced: true, ip_policy_ids })

test(`a rule that was changed through one process holds for the very next request through another, ${printed(times)} times`, async () => {
  await rounds(times, async (admin) => {
    const policy = await policyWith(admin, self, `deny ${guest}`, 'allow 192.0.2.0/24')
    await enforced(admin, policy)
    const { body } = await admin('GET', `/ip_policy_rules?ip_policy_id=${policy}`)
    const { uri } = body.ip_policy_rules.find(({ action }: { action: string }) => action === 'deny')
    return ({ allowed, through }) => admin('PATCH', uri, { cidr: allowed ? '198.51.100.1' : guest }, through)
  })
})

test('so does a rule that was added or deleted', async () => {
  await rounds(sized(60, 200), async (admin) => {
    const policy = await policyWith(admin, self)
    await enforced(admin, policy)
    let uri = ''
    return async ({ allowed, through }) => {
      if (!allowed) return admin('DELETE', uri, undefined, through)
      const created = await admin(
        'POST',
        '/ip_policy_rules',
        { ip_policy_id: policy, action: 'allow', cidr: guest },
        through,
      )
      uri = created.body.uri
      return created
    }
  })
})

test('so does a restriction that was enforced or released', async () => {
  await rounds(sized(60, 200), async (admin) => {
    const { uri } = await enforced(admin, await policyWith(admin, self))
    return ({ allowed, through }) => admin('PATCH', uri, { enforced: !allowed }, through)
  })
})

test('so does a restriction that was created or deleted', async () => {
  await rounds(sized(60, 200), async (admin) => {
    const ip_policy_ids = [await policyWith(admin, self)]
    let { uri } = await enforced(admin, ...ip_policy_ids)
    return async ({ allowed, through }) => {
      if (allowed) return admin('DELETE', uri, undefined, through)
      const created = await admin('POST', '/ip_restrictions', { type: 'api', enforced: true, ip_policy_ids }, through)
      uri = created.body.uri
      return created
    }
  })
})

test('so does a restriction whose policies were replaced', async () => {
  await rounds(sized(60, 200), async (admin) => {
    const [narrow, wide] = [await policyWith(admin, self), await policyWith(admin, `allow ${guest}`)]
    const { uri } = await enforced(admin, narrow)
    return ({ allowed, through }) =>
      admin('PATCH', uri, { ip_policy_ids: allowed ? [narrow, wide] : [narrow] }, through)
  })
})

test('so does a set of rules that was replaced', async () => {
  await rounds(sized(60, 200), async (admin) => {
    const policy = await policyWith(admin, self)
    await enforced(admin, policy)
    return ({ allowed, round, through }) =>
      putRules(
        admin,
        policy,
        [self, allowed ? `allow ${guest}` : `deny ${guest}`, `allow 198.51.100.${round % 250}`],
        through,
      )
  })
})

test('a rule stops counting the moment it expires, in every process', async () => {
  const late: number[] = []
  const worker = async (action: 'allow' | 'deny', process: number) => {
    const admin = await plane.newAccount()
    const policy = await policyWith(admin, self, ...(action === 'deny' ? ['allow 192.0.2.0/24'] : []))
    await enforced(admin, policy)
    const [before, afterwards] = action === 'allow' ? [200, 403] : [403, 200]
    for (let round = 0; round < 5; round++) {
      const expires = Date.now() + 250
      const rule = { ip_policy_id: policy, action, cidr: guest, expires_at: new Date(expires).toISOString() }
      const created = await admin('POST', '/ip_policy_rules', rule, { process: 1 - process })
      assert.equal(created.status, 201, created.text)
      for (;;) {
        const began = Date.now()
        const { status } = await admin('GET', '/caller', undefined, { ...from(guest), process })
        const ended = Date.now()
        if (ended < expires) assert.equal(status, before, `${expires - ended} ms before it expires`)
        if (began > expires && status === before) late.push(began - expires)
        if (began > expires + 80) {
          assert.equal(status, afterwards, `${began - expires} ms after it has expired`)
          break
        }
      }
      assert.equal((await admin('DELETE', created.body.uri)).status, 204)
    }
  }
  await Promise.all([worker('allow', 0), worker('deny', 0), worker('allow', 1), worker('deny', 1)])
  console.log(`the latest request that an expired rule still decided began ${Math.max(0, ...late)} ms after its moment`)
  assert.ok(Math.max(0, ...late) <= 50, `${late} ms`)
})
