// A visitor of an edge is refused in a browser and passes the id on; an admin resolves it. Everything is real.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { cliFor } from '../cli/harness.ts'
import { freshHost, make } from '../harness/fixtures.ts'
import { policyWith } from '../harness/ip.ts'
import { loadScaledTimeout } from '../harness/load_scaled_timeout.ts'
import { poll } from '../harness/poll.ts'
import { openBrowser, openPage, signIn, startDashboardWithEdges } from './browser.ts'

const installation = await startDashboardWithEdges({ after })
const { origin, admin, startEdge } = installation
const edge = await startEdge()
const host = freshHost()
const browser = await openBrowser({ after }, [
  `--host-resolver-rules=MAP ${host}:443 127.0.0.1:${edge.httpsPort}`,
  '--ignore-certificate-errors',
])

/**
 * A node hands kept requests over within half a second and the service writes them immediately. A person who pastes an id does
 * not notice two seconds: longer, and they would take it for unknown. More only where other tests take the time.
 */
const soonMs = loadScaledTimeout(2_000)

test('the id on the page of a refusal leads to the rule within two seconds, in the dashboard and the command line', async (t) => {
  const policyId = await policyWith(admin, 'allow 127.0.0.0/8', 'deny 127.0.0.1 # test rig')
  const { body } = await admin('GET', `/ip_policies/${policyId}/rules`)
  const deny = body.rules.find(({ action }: { action: string }) => action === 'deny')
  const https = await make(admin, '/edges/https', { hostports: [`${host}:443`], description: 'Storefront' })
  const { id: backend_id } = await make(admin, '/backends/http_response', { status_code: 200, body: 'hello' })
  await make(admin, `/edges/https/${https.id}/routes?wait=applied`, {
    match_type: 'path_prefix',
    match: '/',
    backend: { backend_id },
    ip_restriction: { ip_policy_ids: [policyId] },
  })
  const office = await openPage(browser)
  await signIn(office, origin, admin.token, '/traffic')
  await office.getByRole('status', { name: 'Live state' }).getByText('Live', { exact: true }).waitFor()
  const metrics = async () => (await fetch(`${edge.statusUrl}/metrics`)).text()
  await poll(async () => (await metrics()).includes('gatehouse_edge_watches 1'))

  const visitor = await openPage(browser)
  const answer = await visitor.goto(`https://${host}/orders`)
  const began = performance.now()
  assert.equal(answer?.status(), 403)
  // What a person sees and can copy.
  const seen = JSON.parse((await visitor.textContent('body')) ?? '')
  const id: string = seen.details.request_id
  assert.equal(id, answer?.headers()['x-request-id'])

  const row = office.getByRole('table', { name: 'Requests' }).getByRole('row').filter({ hasText: '/orders' })
  await row.getByText('deny 127.0.0.1/32').waitFor()
  const watchedMs = Math.round(performance.now() - began)
  const cli = cliFor(installation, admin)
  const { body: found } = await poll(
    () => admin('GET', `/requests/${id}`),
    ({ status }) => status === 200,
  )
  const keptMs = Math.round(performance.now() - began)
  assert.equal(found.ip_policy_rule?.id, deny.id)
  const printed = await cli.ok(['requests', 'get', id])
  assert.ok(printed.includes(deny.id), printed)

  // By the id alone, in a page that has not seen it happen.
  const other = await openPage(browser)
  await signIn(other, origin, admin.token)
  await other.keyboard.press('Control+k')
  await other.getByRole('dialog', { name: 'Search' }).waitFor()
  await other.keyboard.insertText(id)
  await other.getByRole('menuitem', { name: id }).waitFor()
  const asked = performance.now()
  await other.keyboard.press('Enter')
  const decision = other.getByRole('region', { name: 'Decision' })
  await decision.getByText('127.0.0.1/32').waitFor()
  const shownMs = Math.round(performance.now() - asked)
  assert.match((await decision.innerText()).replaceAll(/\s+/g, ' '), /Rule Deny 127\.0\.0\.1\/32 matches\. test rig/)
  t.diagnostic(`in the list after ${watchedMs} ms, kept after ${keptMs} ms, shown by its id after ${shownMs} ms`)
  for (const ms of [watchedMs, keptMs, shownMs]) assert.ok(ms <= soonMs, `${ms} ms`)
  assert.deepEqual([...office.faults, ...other.faults], [])
})
