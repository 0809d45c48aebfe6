// What an attacker would try against a person who is signed in.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { after, test } from 'node:test'
import { make } from '../harness/fixtures.ts'
import { holdsFor } from '../harness/poll.ts'
import { goTo, goToAll, openBrowser, openPage, signIn, signInByForm, startDashboard } from './browser.ts'

const { origin, newAccount } = await startDashboard({ after })
const browser = await openBrowser({ after })
const admin = await newAccount()

/** Another site: a different host to a browser. */
async function startSite(html: string): Promise<string> {
  const server = createServer((_request, response) => {
    response.setHeader('content-type', 'text/html')
    response.end(html)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  after(() => server.close())
  return `http://localhost:${(server.address() as { port: number }).port}/`
}

const script = `<img src=x onerror="alert(1)"><script>alert(2)</script><svg onload=alert(3)>"'\`{{constructor}}javascript:alert(4)`

test('a script in any text field is shown as text on every page', async () => {
  const page = await openPage(browser)
  const described = { description: script, metadata: script }
  const key = await make(admin, '/api_keys', described)
  await make(admin, '/bot_users', { name: script })
  await make(admin, '/users', { name: script, email: 'x@example.com', role: 'member' })
  const policy = await make(admin, '/ip_policies', described)
  await make(admin, '/ip_policy_rules', { ip_policy_id: policy.id, action: 'allow', cidr: '127.0.0.0/8', ...described })
  const restriction = await make(admin, '/ip_restrictions', { type: 'api', ip_policy_ids: [policy.id], ...described })
  const backend = await make(admin, '/backends/static', { address: 'app.internal:8080', ...described })
  const edge = await make(admin, '/edges/https', { hostports: ['app.example:443'], ...described })
  await make(admin, `/edges/https/${edge.id}/routes`, {
    match_type: 'path_prefix',
    match: '/javascript:alert(5)',
    backend: { backend_id: backend.id },
    request_headers: { add: { 'X-Script': script }, remove: ['__proto__', 'constructor'] },
    ...described,
  })
  await signIn(page, origin, admin.token)
  const paths = [
    '/',
    '/keys',
    '/policies',
    `/policies/${policy.id}`,
    '/restrictions',
    `/restrictions/${restriction.id}`,
    '/edges',
    `/edges/${edge.id}`,
    `/check?ip=${encodeURIComponent(script)}&target=${encodeURIComponent(script)}`,
    '/check?ip=127.0.0.1&target=api',
    '/audit',
    `/audit?resource=${encodeURIComponent(script)}`,
    `/${encodeURIComponent(script)}`,
    `/policies/${encodeURIComponent(script)}`,
  ]
  for (const path of paths) {
    await goToAll(page, path)
    assert.deepEqual(page.faults, [], path)
    assert.equal(await page.locator('main img, main script, main [onerror], main [onload]').count(), 0, path)
  }
  await goTo(page, '/keys')
  await page.getByText(script).first().waitFor()
  await page
    .getByRole('button', { name: /^Actions for/ })
    .first()
    .click()
  await page.getByRole('menuitem', { name: 'Delete key…' }).click()
  await page.getByRole('dialog').waitFor()
  await page.goto(`${origin}/dashboard/edges/${edge.id}`)
  await page.getByRole('button', { name: /request headers/ }).click()
  await page.getByText('+ X-Script').waitFor()
  assert.deepEqual(page.faults, [])
  await admin('DELETE', `/api_keys/${key.id}`)
})

test('another site can neither show the dashboard in a frame nor change anything with its cookie', async () => {
  const page = await openPage(browser)
  await signIn(page, origin, admin.token)
  const before = (await admin('GET', '/api_keys')).body.keys.length
  const frame = await startSite(`<iframe src="${origin}/dashboard/" width="900" height="700"></iframe>`)
  await page.goto(frame)
  const framed = async () => {
    const inside = page.frames().find((candidate) => candidate !== page.mainFrame())
    return (await inside?.content().catch(() => '')) ?? ''
  }
  await holdsFor(1_500, async () => !(await framed()).includes('Gatehouse'))

  const form = await startSite(`
    <form id="f" action="${origin}/api_keys" method="post" enctype="text/plain" target="_blank">
      <input name='{"description":"forged","metadata":"' value='"}'></form>
    <script>
      document.getElementById('f').submit()
      const send = (path, method) => fetch('${origin}' + path, {
        method, mode: 'no-cors', credentials: 'include', body: '{"description":"forged"}', headers: { 'content-type': 'text/plain' } })
      Promise.allSettled([send('/api_keys', 'POST'), send('/dashboard_session', 'POST'),
        fetch('${origin}/api_keys', { method: 'POST', credentials: 'include', body: '{}',
          headers: { 'content-type': 'application/json', 'service-version': '2' } }),
        fetch('${origin}/dashboard_session', { method: 'DELETE', credentials: 'include', headers: { 'service-version': '2' } }),
        fetch('${origin}/caller', { credentials: 'include', headers: { 'service-version': '2' } }).then((r) => r.text()),
      ]).then((all) => { document.title = all.map((one) => one.status + (one.value?.type ?? '')).join(' ') })
    </script>`)
  await page.goto(form)
  await page.waitForFunction('document.title.split(" ").length === 5')
  assert.equal(await page.title(), 'fulfilledopaque fulfilledopaque rejected rejected rejected')
  assert.equal((await admin('GET', '/api_keys')).body.keys.length, before)

  // And the session is as it was.
  page.faults.length = 0
  await page.goto(`${origin}/dashboard/`)
  await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor()
  assert.deepEqual(page.faults, [])
})

test('no page contacts another host', async () => {
  const page = await openPage(browser)
  const elsewhere: string[] = []
  page.on('request', (request) => {
    if (!request.url().startsWith(`${origin}/`)) elsewhere.push(request.url())
  })
  await signInByForm(page, origin, admin.token)
  for (const path of ['/keys', '/policies', '/restrictions', '/edges', '/check?ip=127.0.0.1&target=api', '/audit']) {
    await goToAll(page, path)
  }
  assert.deepEqual(elsewhere, [])
})
