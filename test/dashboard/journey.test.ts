// What an admin does in a day, in a real browser, against real edges.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { exchange, startHttpUpstream } from '../agent/http_harness.ts'
import { dial, startTcpUpstream } from '../agent/live_harness.ts'
import { make } from '../harness/fixtures.ts'
import { getFrom } from '../harness/ip.ts'
import { poll } from '../harness/poll.ts'
import { openBrowser, openPage, openTab, pageTimeout, press, signIn, startDashboardWithEdges } from './browser.ts'

const { origin, admin, processes, startEdge } = await startDashboardWithEdges({ after })
const edge = await startEdge()
const browser = await openBrowser({ after })
const page = await openPage(browser, { permissions: ['clipboard-write'] })
await signIn(page, origin, admin.token)

/** Saves, and resolves when the note about this very change says what is expected. */
async function saveAndSee(sentence: string): Promise<void> {
  const isSave = (url: string, method: string) => method === 'PUT' && !url.includes('dry_run')
  const answered = page.waitForResponse((response) => isSave(response.url(), response.request().method()))
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  const { 'service-generation': generation } = (await answered).headers()
  await page.getByText(`${sentence}Generation ${generation}`).waitFor({ timeout: pageTimeout(30_000) })
}

const api = { host: '127.0.0.1', port: processes[0]?.port ?? 0 }
const statusFrom = async (localAddress: string) =>
  (await getFrom({ ...api, localAddress }, '/caller', admin.token, [])).status

test('a list of 1,000 rules is pasted, reviewed and saved', async () => {
  await openTab(page, 'IP policies')
  await page.getByRole('button', { name: 'Create policy' }).click()
  await page.getByLabel('Description').fill('offices')
  await page.getByRole('button', { name: 'Create IP policy' }).click()
  await page.getByText('No rules. This policy allows no address.').waitFor()
  await page.getByRole('button', { name: 'Import list' }).click()
  const lines = Array.from({ length: 1_000 }, (_, i) => `allow 10.${i >> 8}.${i & 255}.0/24 # site ${i}`)
  // Really pasted: what Playwright enters arrives line by line, each with an event of its own.
  const list = [...lines, 'allow 300.1.2.3', '10.9.9.9/24'].join('\n')
  await page.evaluate(`navigator.clipboard.writeText(${JSON.stringify(list)})`)
  await page.getByLabel('One range per line').press('Control+V')
  await page.getByText('1001 valid rules, 1 invalid line').waitFor()
  await page.getByText('Line 1001').waitFor()
  await page.getByRole('button', { name: 'Import valid lines' }).click()
  await page.getByText('1001 to add, 0 to remove. Not saved yet.').waitFor()
  await page.getByRole('button', { name: 'Review and save' }).click()
  await page.getByRole('button', { name: 'Save rules' }).click()
  await page.getByRole('heading', { name: '1,001 rules' }).waitFor()
  await page.getByText('Not saved yet').waitFor({ state: 'detached' })

  const { body: policies } = await admin('GET', '/ip_policies')
  const { body } = await admin('GET', `/ip_policies/${policies.ip_policies[0].id}/rules`)
  assert.equal(body.rules.length, 1_001)
  await page.getByLabel('Search').fill('10.2.7.77')
  await page.getByRole('heading', { name: '1 of 1,001 rules' }).waitFor()
  await page.getByRole('cell', { name: '10.2.7.0/24', exact: true }).waitFor()
})

test('a self-lockout is announced, and one click allows your own address; others are refused and counted', async () => {
  await openTab(page, 'IP restrictions')
  await page.getByRole('button', { name: 'Create restriction' }).click()
  await page.getByLabel('Description').fill('offices only')
  await page.getByLabel('For').selectOption('API: this API')
  await page.getByLabel('offices').check()
  await page.getByRole('button', { name: 'Create with warnings only' }).click()
  const card = page.getByRole('article', { name: 'offices only' })
  await page.getByText('Warns only', { exact: true }).waitFor()
  assert.equal(await statusFrom('127.0.0.9'), 200)
  // The evidence beside the switch is that address.
  await card.getByText('127.0.0.9').waitFor({ timeout: pageTimeout(30_000) })

  await card.getByRole('switch').click({ force: true })
  const question = page.getByRole('dialog', { name: 'Enforce offices only?' })
  await question.getByRole('button', { name: 'Enforce restriction' }).click()
  await question.getByText('This change would lock you out. Nothing was changed.').waitFor()
  assert.equal(await statusFrom('127.0.0.9'), 200)
  await question.getByRole('button', { name: 'Allow 127.0.0.1 and save' }).click()
  await page.getByText('Enforced', { exact: true }).waitFor()
  assert.equal(await statusFrom('127.0.0.1'), 200)
  assert.equal(await statusFrom('127.0.0.9'), 403)
  assert.equal(await statusFrom('127.0.0.9'), 403)

  await openTab(page, 'Overview')
  const restricted = page.getByRole('table', { name: 'What is restricted' })
  await restricted.getByRole('row').filter({ hasText: 'API' }).getByText('Enforced').waitFor()
  await page.getByRole('img', { name: /^Hourly chart: 2 refused/ }).waitFor({ timeout: pageTimeout(30_000) })
  // Who was refused, and a link to why.
  const refused = page.getByRole('table', { name: 'Refused addresses' })
  await refused.getByRole('link', { name: '127.0.0.9' }).waitFor({ timeout: pageTimeout(30_000) })
})

test('before rules are saved, the review names the addresses they would refuse', async () => {
  await openTab(page, 'IP policies')
  await page.getByRole('link', { name: 'offices', exact: true }).click()
  // The list of policies has a search of its own.
  await page.getByRole('heading', { name: 'offices', level: 1 }).waitFor()
  await page.getByLabel('Search').fill('127.0.0.1')
  await press(page, 'Actions for allow 127.0.0.1/32 > Remove rule')
  await page.getByText('0 to add, 1 to remove. Not saved yet.').waitFor()
  await page.getByRole('button', { name: 'Review and save' }).click()
  const impact = page.getByRole('region', { name: 'Impact' })
  await impact.getByText('Your own address would be refused.').waitFor()
  await impact.getByText('1 would be refused', { exact: true }).waitFor()
  await impact.getByRole('link', { name: '127.0.0.1' }).waitFor()
  await page.getByRole('button', { name: 'Save rules' }).click()
  await page.getByText('This change would lock you out. Nothing was changed.').waitFor()
  await page.getByRole('button', { name: 'Back' }).click()
  await page.getByRole('button', { name: 'Discard' }).click()
  assert.equal(await statusFrom('127.0.0.1'), 200)
})

test("changing an edge's headers shows when the change is live, and it is", async () => {
  const upstream = await startHttpUpstream({ after })
  const backend = await make(admin, '/backends/static', { address: `127.0.0.1:${upstream.port}` })
  const https = await make(admin, '/edges/https', { hostports: ['app.example:443'] })
  await make(admin, `/edges/https/${https.id}/routes?wait=applied`, {
    match_type: 'path_prefix',
    match: '/',
    backend: { backend_id: backend.id },
  })
  await openTab(page, 'Edges')
  await page.getByRole('link', { name: 'app.example:443' }).click()
  await page.getByRole('button', { name: 'Change the request headers of app.example:443/' }).click()
  await page.getByRole('button', { name: 'Add header' }).click()
  await page.getByLabel('Name 1').fill('X-Team')
  await page.getByLabel('Value 1').fill('storage')
  await page.getByLabel('Headers to remove').fill('Cookie')
  // The sample request before and after.
  await page.getByText('− Cookie: session=1').waitFor()
  await page.getByText('+ X-Team: storage').waitFor()
  await saveAndSee('Saved. Live on 1 of 1 node.')

  const request = 'GET / HTTP/1.1\r\nHost: app.example\r\nCookie: session=1\r\n\r\n'
  const answer = await exchange(edge, request, { servername: 'app.example' })
  assert.equal(answer.status, 200, answer.head + answer.body)
  const names = new Map(upstream.lastHeaders().map(([name, value]) => [name.toLowerCase(), value]))
  assert.deepEqual([names.get('x-team'), names.has('cookie')], ['storage', false])
})

test('a TCP edge refuses an address, and the overview says where', async () => {
  const upstream = await startTcpUpstream({ after })
  const backend = await make(admin, '/backends/static', { address: `127.0.0.1:${upstream.port}` })
  const port = edge.tcpPorts.first
  const policy = await make(admin, '/ip_policies', { description: 'all but one' })
  for (const [action, cidr] of [
    ['allow', '127.0.0.0/8'],
    ['deny', '127.0.0.9'],
  ])
    await make(admin, '/ip_policy_rules', { ip_policy_id: policy.id, action, cidr })
  await make(admin, '/edges/tcp?wait=applied', {
    hostports: [`tcp.example:${port}`],
    backend: { backend_id: backend.id },
  })
  assert.equal(await dial(port, '127.0.0.9'), 'hello')
  await openTab(page, 'Edges')
  await page.getByRole('link', { name: `tcp.example:${port}` }).click()
  await page.getByRole('button', { name: `Change allowed addresses of tcp.example:${port}` }).click()
  await page.getByLabel('all but one').check()
  await saveAndSee('Saved. Live on 1 of 1 node.')
  assert.equal(await dial(port, '127.0.0.9'), undefined)
  assert.equal(await dial(port, '127.0.0.2'), 'hello')
  await poll(
    async () => (await admin('GET', '/ip_activity')).body.total.endpoints.refused,
    (refused) => refused > 0,
  )
  await openTab(page, 'Overview')
  await page.getByRole('columnheader', { name: 'By edge and route' }).waitFor()
  await page.getByRole('link', { name: `tcp.example:${port}`, exact: true }).waitFor()
})

test('an address check shows the edge, its policies, its rules and the verdict', async () => {
  await page.getByRole('link', { name: `tcp.example:${edge.tcpPorts.first}`, exact: true }).click()
  // The navigation has one too, which knows no edge.
  await page
    .getByRole('main')
    .getByRole('link', { name: /^Check an address/ })
    .click()
  await page.getByLabel('Address', { exact: true }).fill('127.0.0.9')
  await page.getByRole('button', { name: 'Check', exact: true }).click()
  const way = page.getByRole('region', { name: 'Evaluation' })
  await way.getByText('Refuses it').waitFor()
  await way.getByText('127.0.0.9/32', { exact: true }).waitFor()
  await way.getByRole('link', { name: 'all but one' }).waitFor()
  await way.getByText('Refused', { exact: true }).waitFor()
  await page.getByLabel('Address', { exact: true }).fill('127.0.0.2')
  await page.getByRole('button', { name: 'Check', exact: true }).click()
  await way.getByText('Allowed', { exact: true }).waitFor()
})

test('a change that no node has applied says so', async () => {
  await openTab(page, 'Edges')
  await page.getByRole('link', { name: 'app.example:443' }).click()
  await page.getByRole('button', { name: 'Change the request headers of app.example:443/' }).click()
  await page.getByLabel('Value 1').fill('compute')
  // Not earlier: ten seconds after its last report, it does not count as live any more.
  edge.child.kill('SIGSTOP')
  try {
    await saveAndSee('Saved. Live on 0 of 1 node so far…')
    await openTab(page, 'Overview')
    await page.getByRole('link', { name: /^(Live on 0 of 1 node|No node is live)/ }).waitFor()
  } finally {
    edge.child.kill('SIGCONT')
  }
  await page.getByRole('link', { name: /^Live on 1 of 1 node/ }).waitFor({ timeout: pageTimeout(30_000) })
})

test('the audit tells who changed what, field by field', async () => {
  await openTab(page, 'Audit log')
  const event = page.getByRole('listitem').filter({ hasText: 'set the request headers of route' }).first()
  // Her name is also in what changed.
  await event.getByText('Ada').first().waitFor()
  await event.getByText('storage').waitFor()
  await event.getByText('compute').waitFor()
  assert.deepEqual(page.faults, [])
})
