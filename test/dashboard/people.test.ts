import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { noteToken } from '../harness/client.ts'
import { poll } from '../harness/poll.ts'
import { openBrowser, openPage, openTab, press, signIn, signInByForm, startDashboard } from './browser.ts'

const { origin, newAccount, clientFor } = await startDashboard({ after })
const browser = await openBrowser({ after })

test('a user is created, made an admin, deactivated and deleted; a taken email is marked where it was typed', async () => {
  const admin = await newAccount()
  const page = await openPage(browser)
  await signIn(page, origin, admin.token, '/people')
  await press(page, 'Create user')
  let dialog = page.getByRole('dialog', { name: 'Create user' })
  await dialog.getByLabel('Name').fill('Grace')
  await dialog.getByLabel('Email').fill('grace@example.com')
  await dialog.getByText('Create a key to sign in with').click()
  await dialog.getByRole('button', { name: 'Create user' }).click()
  const row = page.getByRole('row').filter({ hasText: 'Grace' })
  await row.getByText('Viewer').waitFor()

  await press(page, 'Create user')
  await dialog.getByLabel('Name').fill('Another')
  await dialog.getByLabel('Email').fill('GRACE@example.com')
  await dialog.getByRole('button', { name: 'Create user' }).click()
  await dialog.locator('.field-error, [role=alert]').first().waitFor()
  await page.keyboard.press('Escape')
  await press(page, 'Discard changes')

  await press(page, 'Actions for Grace > Edit…')
  dialog = page.getByRole('dialog', { name: 'Edit Grace' })
  await dialog.getByText('Also restrictions').click()
  await dialog.getByRole('button', { name: 'Save user' }).click()
  await row.getByText('Admin').waitFor()

  const { body: users } = await admin('GET', '/users')
  const grace = users.users.find(({ name }: { name: string }) => name === 'Grace')
  const { body: key } = await admin('POST', '/api_keys', { owner_id: grace.id })
  noteToken(key.token)
  const theirs = clientFor(key.token)
  await row.getByText('Never').waitFor()
  assert.equal((await theirs('GET', '/caller')).status, 200)
  // Uses are written down a moment later.
  await poll(
    async () => (await admin('GET', `/api_keys/${key.id}`)).body.last_used_at,
    (at) => at !== null,
  )
  await page.reload()
  await row.getByText('within the last hour').waitFor()
  await press(page, 'Actions for Grace > Deactivate…')
  await press(page, 'Deactivate')
  // Exactly: 'Admin' and 'Active' together contain it.
  await row.getByText('Inactive', { exact: true }).waitFor()
  assert.equal((await theirs('GET', '/caller')).status, 401)

  await press(page, 'Actions for Grace > Delete…')
  await page.getByLabel('Type Grace to confirm').fill('Grace')
  await press(page, 'Delete user')
  await row.waitFor({ state: 'detached' })
  assert.deepEqual(page.faults, [])
})

test('a bot is created and renamed; the last admin stays one', async () => {
  const admin = await newAccount()
  const page = await openPage(browser)
  await signIn(page, origin, admin.token, '/people')
  await press(page, 'Create bot')
  await page.getByRole('dialog').getByLabel('Name').fill('deploys')
  await page.getByRole('dialog').getByRole('button', { name: 'Create bot' }).click()
  await press(page, 'Actions for deploys > Edit…')
  await page.getByRole('dialog').getByLabel('Name').fill('releases')
  await press(page, 'Save bot')
  await page.getByRole('row').filter({ hasText: 'releases' }).getByText('Bot', { exact: true }).waitFor()

  await press(page, 'Actions for Ada > Deactivate…')
  await press(page, 'Deactivate')
  await page
    .getByRole('alert')
    .getByText(/last active admin/i)
    .waitFor()
  assert.deepEqual(page.faults, [])
})

test('a colleague who may only look is created with a key to sign in, in three clicks', async () => {
  const admin = await newAccount()
  const page = await openPage(browser)
  await signIn(page, origin, admin.token)
  await page.evaluate('(window.clicks = 0, addEventListener("click", () => window.clicks++, true))')
  await openTab(page, 'People and bots')
  await press(page, 'Create user')
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Name').fill('Lena')
  await dialog.getByLabel('Email').fill('lena@example.com')
  await dialog.getByRole('button', { name: 'Create user' }).click()
  const token = await page.getByLabel('Token').innerText()
  assert.equal(await page.evaluate('window.clicks'), 3)
  noteToken(token)
  const { body } = await clientFor(token)('GET', '/caller')
  assert.equal(body.role, 'viewer')
  const left = (Date.parse(body.expires_at) - Date.now()) / 86_400_000
  assert.ok(left > 89 && left <= 90, `${left} days`)
  await press(page, 'I have saved it')

  const theirs = await openPage(browser)
  await signInByForm(theirs, origin, token)
  await theirs.getByText('Lena').first().waitFor()
  assert.deepEqual([...page.faults, ...theirs.faults], [])
})

test('a key that is refused after the user was created is tried again without another user', async () => {
  const admin = await newAccount()
  const page = await openPage(browser)
  await signIn(page, origin, admin.token, '/people')
  await press(page, 'Create user')
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Name').fill('Lena')
  await dialog.getByLabel('Email').fill('lena@example.com')
  await page.route('**/api_keys', (route) => (route.request().method() === 'POST' ? route.abort() : route.continue()))
  await dialog.getByRole('button', { name: 'Create user' }).click()
  await dialog.getByRole('alert').waitFor()
  await page.unroute('**/api_keys')
  await dialog.getByRole('button', { name: 'Create user' }).click()
  noteToken(await page.getByLabel('Token').innerText())
  const { users } = (await admin('GET', '/users')).body
  assert.equal(users.filter(({ name }: { name: string }) => name === 'Lena').length, 1)
})

test('the pages of a person, a bot and a key say what each may do, and lead to each other', async () => {
  const admin = await newAccount()
  const bot = (await admin('POST', '/bot_users', { name: 'deploys' })).body
  const key = (
    await admin('POST', '/api_keys', {
      ...{ owner_id: bot.id, description: 'pipeline', scopes: ['*.list'] },
      allowed_cidrs: ['192.0.2.0/24', '198.51.100.0/24'],
    })
  ).body
  noteToken(key.token)
  const page = await openPage(browser)
  await signIn(page, origin, admin.token, '/keys')
  await page.getByRole('link', { name: 'pipeline' }).click()
  await page.getByRole('heading', { name: 'pipeline', level: 1 }).waitFor()
  await page.getByText('192.0.2.0/24, 198.51.100.0/24').waitFor()
  await page.getByText('Never', { exact: true }).first().waitFor()
  await page.getByRole('tab', { name: 'History' }).click()
  await page.getByText('created', { exact: false }).first().waitFor()
  await page.getByRole('tab', { name: 'Access' }).click()
  await page.getByRole('link', { name: 'deploys' }).click()
  await page.getByRole('heading', { name: 'deploys', level: 1 }).waitFor()
  await page.getByRole('table', { name: 'API keys' }).getByRole('link', { name: 'pipeline' }).waitFor()
  await press(page, 'Create key')
  assert.equal(await page.getByRole('dialog').getByLabel('Owner', { exact: true }).inputValue(), bot.id)
  await page.keyboard.press('Escape')

  await page.goto(`${origin}/dashboard/people`)
  await page.getByRole('link', { name: 'Ada' }).click()
  await page.getByText('No provider: only with the token of an API key.').waitFor()
  await page.getByRole('tab', { name: 'Changes made' }).click()
  await page.getByRole('region', { name: 'Changes' }).getByText('pipeline').first().waitFor()

  await page.goto(`${origin}/dashboard/keys/${key.id}`)
  await press(page, 'More actions > Delete key…')
  await page.getByLabel('Type pipeline to confirm').fill('pipeline')
  await press(page, 'Delete key')
  await page.getByRole('heading', { name: 'API keys', level: 1 }).waitFor()
  await page.goto(`${origin}/dashboard/people/usr_00000000000000000000000000`)
  await page.getByText('No such user or bot').waitFor()
  assert.deepEqual(page.faults, [])
})
