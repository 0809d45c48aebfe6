// A NATS server with a smaller max_payload than the default of 1 MiB.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { startNats } from '../dev/nats.ts'
import { get } from './agent/http_harness.ts'
import { createClient } from './harness/client.ts'
import type { ServeProcess } from './harness/control_plane.ts'
import { startInstallation } from './harness/edge.ts'
import { poll } from './harness/poll.ts'

const limit = 64 * 1024
const installation = await startInstallation({ after }, {}, undefined, startNats({ maxPayload: limit }))
const { nats, admin, newAccount, processes } = installation
const edge = await installation.startEdge()
/** 8,190 bytes in 2,730 characters. */
const body = '漢'.repeat(2_730)

/** Resolves to the path of its route. */
async function addSite(account: typeof admin, host: string, modules: object = {}): Promise<string> {
  const { body: backend } = await account('POST', '/backends/http_response', { status_code: 200, body })
  const { body: site } = await account('POST', '/edges/https', { hostports: [`${host}:443`] })
  const route = { match_type: 'path_prefix', match: '/', backend: { backend_id: backend.id }, ...modules }
  const { body: made } = await account('POST', `/edges/https/${site.id}/routes`, route)
  return `/edges/https/${site.id}/routes/${made.id}`
}
const { origin } = processes[0] as ServeProcess
const warnings = async (): Promise<string[]> =>
  ((await (await fetch(`${origin}/readyz`)).json()) as { warnings?: string[] }).warnings ?? []
const heldBack = async () =>
  Number(
    /^gatehouse_publisher_held_back\{cell="default"\} (\d+)$/m.exec(
      await (await fetch(`${origin}/metrics`)).text(),
    )?.[1],
  )
const serves = (host: string) =>
  poll(async () => Buffer.from((await get(edge, { host })).body, 'latin1').toString() === body)

test('changes that are larger together than one message, in bytes of their text, reach nodes', async () => {
  // Those that come while NATS is away are sent together: about 160 KB, in half as many characters.
  await nats.stop('SIGKILL')
  const hosts = Array.from({ length: 18 }, (_, index) => `site-${index}.example`)
  for (const host of hosts) await addSite(admin, host)
  await nats.restart()
  for (const host of hosts) await serves(host)
})

test('a policy that is too large for NATS is named and not sent; changes of other accounts go on', async () => {
  const owner = await newAccount()
  const { body: policy } = await owner('POST', '/ip_policies', {})
  const route = await addSite(owner, 'guarded.example', { ip_restriction: { ip_policy_ids: [policy.id] } })
  const stateOfRoute = async () => (await owner('GET', route)).body.status
  const rules = Array.from({ length: 20_000 }, (_, index) => `allow 10.${index >> 8}.${index & 255}.0/25`)
  await owner('PUT', `/ip_policies/${policy.id}/rules?confirm=true`, undefined, {
    rawBody: rules.join('\n'),
    contentType: 'text/plain',
  })
  const line = await poll(() => processes[0]?.log.find(({ msg }) => String(msg).includes(policy.id)))
  assert.match(
    String(line?.msg),
    /^cannot send policy\.ipp_\w+; edge nodes keep what they have: it needs NATS messages of \d+ bytes, and the server accepts 65536\. Raise max_payload in the configuration of NATS$/,
  )
  const { headers } = await owner('POST', '/ip_policy_rules?wait=applied', {
    ip_policy_id: policy.id,
    action: 'allow',
    cidr: '192.0.2.1',
  })
  assert.deepEqual([headers.get('service-applied'), headers.get('service-behind')], ['0/1', 'edge-1'])
  const generation = Number(headers.get('service-generation'))
  const status = async (account: typeof admin) => (await account('GET', `/generations/${generation}`)).body
  const { applied_nodes, withheld } = await status(owner)
  assert.equal(applied_nodes, 0)
  assert.deepEqual([withheld.length, withheld[0].key], [1, `policy.${policy.id}`])
  assert.match(withheld[0].reason, /^it needs NATS messages of \d+ bytes/)
  assert.deepEqual((await status(admin)).withheld, [], 'what it is about is for its account only')
  const [warning = ''] = await warnings()
  assert.match(warning, new RegExp(`^cannot send policy\\.${policy.id}; edge nodes keep what they have: it needs NATS`))
  assert.equal(await heldBack(), 1)
  const { state, code, reason } = await stateOfRoute()
  assert.deepEqual([state, code], ['degraded', 'record_withheld'])
  assert.match(reason, /^The control plane cannot send it to edge nodes: it needs NATS messages of/)
  // A process that takes over, or answers in its place, knows as much.
  const second = await installation.startProcess()
  assert.equal(
    (await createClient([second.origin], owner.token)('GET', `/generations/${generation}`)).body.applied_nodes,
    0,
  )

  const other = await newAccount()
  await addSite(other, 'other.example')
  await serves('other.example')
  const fine = await other('POST', '/ip_policies?wait=applied', {})
  assert.equal(fine.headers.get('service-applied'), '1/1')

  const smaller = await owner('PUT', `/ip_policies/${policy.id}/rules?wait=applied&confirm=true`, undefined, {
    rawBody: 'allow 10.0.0.0/25',
    contentType: 'text/plain',
  })
  assert.equal(smaller.headers.get('service-applied'), '1/1', smaller.text)
  assert.deepEqual([await warnings(), await heldBack(), (await status(owner)).applied_nodes], [[], 0, 1])
  await poll(stateOfRoute, ({ state }) => state === 'up')
})
