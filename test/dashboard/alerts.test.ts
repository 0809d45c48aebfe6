// What fires, and the rules and destinations behind it: from the first rule to a message that arrives in a chat.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { after, type TestContext, test } from 'node:test'
import type { Page } from 'playwright-core'
import { noTarget } from '../../src/access/evidence/address_outcomes.ts'
import { run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { type Id, toUuid } from '../../src/kernel/ids.ts'
import { noteToken } from '../harness/client.ts'
import type { Account } from '../harness/control_plane.ts'
import { freshHost, make } from '../harness/fixtures.ts'
import { poll } from '../harness/poll.ts'
import { accountUuid } from '../webhooks/destinations.ts'
import { webhookEnv } from '../webhooks/environment.ts'
import { goTo, openBrowser, openPage, press, signIn, startDashboard } from './browser.ts'

const { origin, newAccount, db } = await startDashboard({ after }, async () => ({
  ...webhookEnv,
  ...{ GATEHOUSE_ALERT_INTERVAL_SECONDS: '1', GATEHOUSE_ALERT_RESOLVE_SECONDS: '2' },
}))
const browser = await openBrowser({ after })

/** An incoming webhook of a chat. */
async function startChat(t: TestContext) {
  const messages: string[] = []
  const server = createServer(async (request, response) => {
    messages.push(JSON.parse(await text(request)).text)
    response.end('ok')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => server.close())
  return { messages, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/services/x` }
}

/** A tenth of the requests to an edge fail. */
async function makeErrors(admin: Account) {
  const edge = await make(admin, '/edges/https', { description: 'Shop', hostports: [`${freshHost()}:443`] })
  await run(
    db,
    sql`
    insert into traffic_minutes (account_id, at, node, edge_kind, edge_id, route_id, backend_kind, backend_id, requests,
      refused, limited, backend_5xx, unreachable, no_response, timeout, edge, client, latencies)
    values (${accountUuid(admin)}, date_trunc('minute', now()), 'edge-1', 'edghts', ${toUuid(edge.id as Id)}, ${noTarget},
      'bkdst', ${noTarget}, 100, 0, 0, 9, 1, 0, 0, 0, 5, '{}')`,
  )
  return edge
}

const menu = (page: Page) => page.getByRole('navigation', { name: 'Pages' })
const rules = (page: Page) => page.getByRole('table', { name: 'Alert rules' })

test('a destination and a rule are created, tried, fire, are silenced, disabled and deleted', async (t) => {
  const admin = await newAccount()
  const chat = await startChat(t)
  await makeErrors(admin)
  const page = await openPage(browser)
  await signIn(page, origin, admin.token, '/alerts')
  await page.getByText('No rule watches anything, so no alert can fire.').waitFor()
  await page.getByText('Alerts are not sent anywhere').waitFor()

  await press(page, 'Create your first rule')
  let dialog = page.getByRole('dialog', { name: 'Create alert rule' })
  await dialog.getByLabel('Fire when').selectOption({ label: 'Too many requests fail' })
  await dialog.getByLabel('Watch', { exact: true }).selectOption({ label: 'Shop' })
  await dialog.getByLabel('More than (percent)').fill('200')
  await dialog.getByLabel('Fires', { exact: true }).selectOption({ label: 'At once' })
  await dialog.getByRole('button', { name: 'Create alert rule' }).click()
  await dialog.locator('.field-error').filter({ hasText: 'More than (percent) must be' }).waitFor()
  await dialog.getByLabel('More than (percent)').fill('50')
  await dialog.getByLabel('Description').fill('Shop errors')
  await dialog.getByRole('button', { name: 'Create alert rule' }).click()
  await rules(page).getByText('More than 50 % of requests fail').waitFor()
  await rules(page).getByRole('link', { name: 'Shop' }).waitFor()
  await rules(page).getByText('Fine', { exact: true }).waitFor()
  await page.getByText('No alert is firing', { exact: true }).waitFor()

  await press(page, 'Test Shop errors')
  await page.getByText('Nothing was sent, because no enabled').waitFor()
  await press(page, 'Done')
  await press(page, 'Add destination')
  dialog = page.getByRole('dialog', { name: 'Add destination' })
  await dialog.getByLabel('URL').fill(chat.url)
  await dialog.getByLabel('Description').fill('#edge-ops')
  await dialog.getByRole('button', { name: 'Add destination' }).click()
  await dialog.waitFor({ state: 'detached' })
  await page.getByRole('table', { name: 'Destinations' }).getByText('Chat message').waitFor()
  await press(page, 'Test Shop errors')
  await page.getByRole('list', { name: 'Destinations' }).getByText('Delivered').waitFor()
  assert.match(chat.messages[0] ?? '', /^Test: errors/)
  await press(page, 'Done')

  await press(page, 'Actions for Shop errors > Edit…')
  await page.getByLabel('More than (percent)').fill('5')
  await press(page, 'Save')
  const firing = page.getByRole('list', { name: 'Firing now' })
  await firing.getByText('Requests to Shop fail').waitFor({ timeout: 30_000 })
  await firing.getByText('10.0 % of 100 requests failed').waitFor()
  await firing.getByText('Handed to destinations at').waitFor()
  await poll(() => chat.messages.some((message) => message.startsWith('Firing: errors')))
  await page.getByText('1 alert is firing').first().waitFor()
  assert.equal(await menu(page).getByRole('link', { name: 'Alerts' }).textContent(), 'Alerts1')
  await page.getByRole('table', { name: 'History' }).getByText('still firing').waitFor()

  await press(page, 'Silence: Requests to Shop fail')
  dialog = page.getByRole('dialog', { name: 'Silence “Shop errors”' })
  await dialog.getByText('are not sent').waitFor()
  await dialog.getByText('Date…').click()
  await dialog.getByLabel('Until', { exact: true }).fill('2020-01-01T09:00')
  await dialog.getByRole('button', { name: 'Silence rule' }).click()
  await dialog.locator('.field-error').filter({ hasText: 'Until must be a time in the future' }).waitFor()
  await dialog.getByText('8 hours').click()
  await dialog.getByRole('button', { name: 'Silence rule' }).click()
  await rules(page).getByText('Silenced until').waitFor()
  await page.getByText('1 alert is firing, 1 of them silenced.').waitFor()

  await goTo(page, '/')
  await firing.getByText('Requests to Shop fail').waitFor()
  await page.getByRole('link', { name: 'All alerts' }).click()
  await page.getByRole('switch', { name: 'Evaluate Shop errors' }).press('Space')
  await rules(page).getByText('Disabled').waitFor()
  await firing.waitFor({ state: 'detached' })
  // The end of what was sent is sent, also in a silence.
  await poll(() => chat.messages.some((message) => message.startsWith('Resolved: errors')))
  await press(page, 'Actions for Shop errors > Delete rule…')
  await press(page, 'Delete alert rule')
  await page.getByText('Nothing is watched yet').waitFor()
  await page.getByRole('table', { name: 'History' }).getByText('Its rule was deleted or disabled.').waitFor()
  assert.deepEqual(page.faults, [])
})

test('a rule that is not evaluated, and alerts that cannot be read, are unknown and never fine', async () => {
  const admin = await newAccount()
  const rule = await make(admin, '/alert_rules', { kind: 'newly_refused', description: 'Shut out' })
  await poll(
    async () => (await admin('GET', `/alert_rules/${rule.id}`)).body.state,
    (state) => state === 'fine',
  )
  // As if no process evaluated it any more.
  await run(
    db,
    sql`update alert_turns set due_at = now() + interval '1 hour', leased_until = null where account_id = ${accountUuid(admin)}`,
  )
  await run(
    db,
    sql`update alert_rules set evaluated_at = now() - interval '10 minutes' where account_id = ${accountUuid(admin)}`,
  )
  const page = await openPage(browser)
  await signIn(page, origin, admin.token, '/alerts')
  await rules(page).getByText('Unknown', { exact: true }).waitFor()
  await rules(page).getByText('Last evaluated 10 min. ago').waitFor()
  await page.getByText('No alert is firing, but 1 rule is unknown').waitFor()
  await page.getByText('It is not known whether 1 rule has something to report.').waitFor()
  assert.equal(await rules(page).getByText('Fine', { exact: true }).count(), 0)
  await menu(page).getByText('1 alert rule is unknown').waitFor({ state: 'attached' })

  // Reads that cannot go together go alone.
  await page.route(/\/alerts\?|\/dashboard\/reads/, (route) => route.fulfill({ status: 500, body: '{}' }))
  await page.goto(`${origin}/dashboard/alerts`)
  await page.getByRole('alert').first().waitFor()
  assert.equal(await page.getByText('No alert is firing').count(), 0)
  await menu(page).getByText('Alerts could not be read').waitFor({ state: 'attached' })
})

test('a viewer sees what fires and why, and can change and send nothing', async () => {
  const admin = await newAccount()
  await makeErrors(admin)
  await make(admin, '/alert_rules', { kind: 'errors', for_seconds: 0 })
  const user = await make(admin, '/users', { name: 'Vera', email: 'vera@example.com', role: 'viewer' })
  const { token } = await make(admin, '/api_keys', { owner_id: user.id })
  noteToken(token)
  const page = await openPage(browser)
  await signIn(page, origin, token, '/alerts')
  const firing = page.getByRole('list', { name: 'Firing now' })
  await firing.getByText('10.0 % of 100 requests failed').waitFor()
  await firing.getByRole('link', { name: 'Show requests: Requests fail' }).waitFor()
  await rules(page).getByText('Firing').waitFor()
  await page.getByText('Only admins see where alerts are sent.').waitFor()
  const main = page.getByRole('main')
  for (const role of ['button', 'switch'] as const)
    assert.deepEqual(
      (await main.getByRole(role).allTextContents()).filter(
        (name) => !['When', 'State', 'Alert', 'Began', 'Lasted'].includes(name),
      ),
      [],
    )
  await page.goto(`${origin}/dashboard/settings`)
  await page.getByRole('heading', { name: 'Settings', level: 1 }).waitFor()
  await page.getByText('1 rule is evaluated, of 1.').waitFor()
  assert.deepEqual(page.faults, [])
})

const focused = `(() => {
  const at = document.activeElement
  return at.getAttribute('aria-label') ?? at.labels?.[0]?.textContent ?? at.textContent
})()`

test('a rule is created and silenced with the keyboard alone', async () => {
  const admin = await newAccount()
  const page = await openPage(browser)
  await signIn(page, origin, admin.token, '/alerts')
  const focus = async (name: string) => {
    const at = () => page.evaluate<string>(focused)
    for (let presses = 0; presses < 80 && (await at()) !== name; presses++) await page.keyboard.press('Tab')
    assert.equal(await at(), name)
  }
  await page.getByRole('button', { name: 'Create alert rule' }).waitFor()
  await focus('Create alert rule')
  await page.keyboard.press('Enter')
  await page.getByRole('dialog').waitFor()
  await focus('Description')
  await page.keyboard.type('by hand')
  await page.keyboard.press('Enter')
  await rules(page).getByText('by hand', { exact: true }).waitFor()
  await focus('Actions for by hand')
  await page.keyboard.press('Enter')
  await page.getByRole('menuitem', { name: 'Silence…' }).waitFor()
  await page.keyboard.press('ArrowDown')
  await page.keyboard.press('Enter')
  const dialog = page.getByRole('dialog', { name: 'Silence “by hand”' })
  await dialog.waitFor()
  await focus('Silence rule')
  await page.keyboard.press('Enter')
  await dialog.waitFor({ state: 'detached' })
  await rules(page).getByText('Silenced until').waitFor()
  assert.deepEqual(page.faults, [])
})
