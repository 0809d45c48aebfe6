// Reads that the dashboard sends in one request: what each may do, costs and leaves behind is what it would alone.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Answer } from './harness/client.ts'
import { type Account, startControlPlane } from './harness/control_plane.ts'
import { make } from './harness/fixtures.ts'
import { behindProxy, from, restrict } from './harness/ip.ts'
import { poll } from './harness/poll.ts'
import { newUser } from './harness/principals.ts'
import { signIn } from './harness/session.ts'

const limit = 30
const plane = await startControlPlane(
  { after },
  { env: { ...behindProxy, GATEHOUSE_REQUESTS_PER_MINUTE: String(limit) } },
)
const [{ origin } = assert.fail()] = plane.processes

type Head = { at: number; status: number; headers: Record<string, string> }
type Read = Pick<Answer, 'status' | 'body'> & { headers: Record<string, string> }

async function gather(of: readonly string[], headers: Record<string, string>): Promise<Read[]> {
  const query = new URLSearchParams(of.map((each): [string, string] => ['of', each]))
  const response = await fetch(`${origin}/dashboard/reads?${query}`, {
    headers: { 'service-version': '2', ...headers },
  })
  assert.equal(response.status, 200)
  assert.match(response.headers.get('content-type') ?? '', /^application\/x-ndjson/)
  const lines = (await response.text()).split('\n')
  assert.equal(lines.pop(), '')
  const reads: Read[] = []
  for (let line = 0; line < lines.length; line += 2) {
    const { at, ...head }: Head = JSON.parse(lines[line] ?? '')
    reads[at] = { ...head, body: JSON.parse(lines[line + 1] ?? '') }
  }
  return reads
}
const bearer = ({ token }: Pick<Account, 'token'>) => ({ authorization: `Bearer ${token}` })

test('each read is answered as it would be alone, in every coding', async () => {
  const admin = await plane.newAccount()
  for (let n = 0; n < 3; n++) await make(admin, '/ip_policies', { description: `policy ${n}` })
  const paths = ['/ip_policies?limit=2', '/caller', '/ip_policies?limit=0', '/edges/https']
  const alone = await Promise.all(paths.map((path) => admin('GET', path)))
  for (const coding of ['identity', 'gzip', 'br']) {
    const reads = await gather(paths, { ...bearer(admin), 'accept-encoding': coding })
    assert.deepEqual(
      reads.map(({ status }) => status),
      [200, 200, 400, 200],
    )
    for (const [at, { body, headers }] of reads.entries()) {
      const { operation_id: _, ...details } = body.details ?? {}
      const { operation_id: __, ...detailsAlone } = alone[at]?.body.details ?? {}
      assert.deepEqual({ ...body, details }, { ...alone[at]?.body, details: detailsAlone })
      assert.match(headers['Operation-Id'] ?? '', /^op_/)
    }
  }
})

test('what is no read without an id in its path is not done', async () => {
  const admin = await plane.newAccount()
  const policy = await make(admin, '/ip_policies')
  const wanted = [
    ...[`/ip_policies/${policy.id}`, '/requests/stream', '/dashboard_session/../caller', '//caller', 'caller', ''],
    ...['/metrics', '/healthz', '/dashboard/reads?of=/caller', 'http://127.0.0.1/caller', '/CALLER', '__proto__'],
  ]
  for (const { status, body } of await gather(wanted, bearer(admin)))
    assert.deepEqual([status, body.error_code], [404, 'ERR_ROUTE_NOT_FOUND'])
  for (const query of ['', `?${'of=/caller&'.repeat(41)}`]) {
    const response = await fetch(`${origin}/dashboard/reads${query}`, { headers: bearer(admin) })
    assert.equal(response.status, 400)
  }
  const posted = await fetch(`${origin}/dashboard/reads?of=/ip_policies`, { method: 'POST', headers: bearer(admin) })
  assert.equal(posted.status, 404)
})

test('no read shows more than its caller may see', async () => {
  const [admin, other] = [await plane.newAccount(), await plane.newAccount()]
  await make(admin, '/ip_policies', { description: 'secret plans' })
  const [theirs] = await gather(['/ip_policies', '/caller'], bearer(other))
  assert.deepEqual(theirs?.body.ip_policies, [])
  const statuses = async (headers: Record<string, string>) =>
    (await gather(['/caller', '/audit_events'], headers)).map(({ status }) => status)
  assert.deepEqual(await statuses({}), [401, 401])
  assert.deepEqual(await statuses({ ...bearer(admin), 'service-version': '1' }), [400, 400])
  const member = await newUser(plane, admin)
  assert.deepEqual(await statuses(bearer(member)), [200, 403])
  const { token } = await make(admin, '/api_keys', { scopes: ['audit_events.list'] })
  assert.deepEqual(await statuses(bearer({ token })), [403, 200])
})

test('an address that may not call the API gets none of the reads, and each is in the evidence', async () => {
  const admin = await plane.newAccount()
  const policy = await make(admin, '/ip_policies')
  await make(admin, '/ip_policy_rules', { ip_policy_id: policy.id, action: 'allow', cidr: '127.0.0.1' })
  await restrict(admin, { enforced: true, ip_policy_ids: [policy.id] })
  const paths = ['/caller', '/edges/https', '/metrics']
  const reads = await gather(paths, { ...bearer(admin), ...from('203.0.113.9').headers })
  assert.deepEqual(
    reads.map(({ body }) => body.error_code),
    ['ERR_IP_REFUSED', 'ERR_IP_REFUSED', 'ERR_ROUTE_NOT_FOUND'],
  )
  await poll(async () => {
    const { body } = await admin('GET', '/ip_refusals')
    const operations = body.ip_refusals.map(({ operation }: { operation: string }) => operation).toSorted()
    return operations.join() === 'caller.get,https_edges.list'
  })
})

test('reads with the cookie of a session count for its key one by one, are logged, and end with the session', async () => {
  const admin = await plane.newAccount()
  const browser = await signIn(admin)
  const headers = { cookie: `__Host-gatehouse_session=${browser.secret}` }
  const reads = await gather(
    Array.from({ length: 40 }, () => '/caller'),
    headers,
  )
  const allowed = reads.filter(({ status }) => status === 200).length
  // A slow machine earns some more meanwhile.
  assert.ok(allowed >= limit / 2 && allowed < 40, `${allowed}`)
  const refused = reads.find(({ status }) => status === 429)
  assert.ok(Number(refused?.headers['Retry-After']) > 0)
  const ids = reads.map(({ headers }) => headers['Operation-Id'])
  assert.equal(new Set(ids).size, 40)
  const logged = () => plane.processes[0]?.log.filter(({ operation_id: id }) => ids.includes(id as string)) ?? []
  await poll(() => logged().length === 40)
  for (const line of logged()) {
    assert.equal(line.operation, 'caller.get')
    assert.equal(line.dashboard_session_id, browser.sessionId)
  }
  await poll(async () => (await browser('DELETE', '/dashboard_session')).status === 204)
  assert.equal((await gather(['/caller'], headers))[0]?.status, 401)
})
