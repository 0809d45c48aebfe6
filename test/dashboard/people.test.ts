import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { noteToken } from '../harness/client.ts'
import { poll } from '../harness/poll.ts'
import { inspect } from './axe.ts'
import { goTo, openBrowser, openPage, openTab, press, signIn, startDashboard } from './browser.ts'

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
  await dialog.getByText('Create a link to sign in').click()
  await dialog.getByRole('button', { name: 'Create user' }).click()
  const row = page.getByRole('row').filter({ hasText: 'Grace' })
  await row.getByText('Viewer').waitFor()
  await dialog.waitFor({ state: 'detached' })

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
  await row.getByText('Never', { exact: true }).waitFor()
  await row.getByText('Never signed in').waitFor()
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

test('a colleague who may only look is created with a link, in three clicks, and signs in with it', async () => {
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
  const link = await page.getByLabel('Invitation link').innerText()
  assert.equal(await page.evaluate('window.clicks'), 3)
  const secret = link.split('#')[1] ?? ''
  noteToken(secret)
  await press(page, 'I have copied it')
  await page
    .getByRole('row')
    .filter({ hasText: 'Lena' })
    .getByText(/^Invited until/)
    .waitFor()
  await goTo(page, '/keys')
  await page.getByText('2 keys. 1 waits for an invitation to be accepted.').waitFor()
  await goTo(page, '/people')
  await page.getByRole('link', { name: 'Lena' }).click()
  const invitation = page.getByRole('region', { name: 'Invitation' })
  await invitation.getByText('Not accepted yet').waitFor()
  await openTab(page, 'Overview')
  await page.getByRole('region', { name: 'Latest changes' }).waitFor()
  assert.equal(await page.getByText('expires this week').count(), 0, 'a key that no one has yet')
  await openTab(page, 'People and bots')
  await page.getByRole('link', { name: 'Lena' }).click()

  const theirs = await openPage(browser)
  const seen = { light: [], dark: [] }
  const addresses: string[] = []
  theirs.on('request', (request) => addresses.push(request.url(), request.headers().referer ?? ''))
  await theirs.goto(link)
  await theirs.getByRole('heading', { name: 'Join', level: 1 }).waitFor()
  await theirs.getByText('Lena (lena@example.com) is invited as a viewer').waitFor()
  await inspect(theirs, 'an invitation', seen)
  assert.equal(theirs.url(), `${origin}/dashboard/invitation`, 'the secret is out of the address bar')
  await press(theirs, 'Accept invitation')
  const token = await theirs.getByLabel('Token').innerText()
  noteToken(token)
  const { body } = await clientFor(token)('GET', '/caller')
  assert.equal(body.role, 'viewer')
  await inspect(theirs, 'an accepted invitation', seen)
  assert.deepEqual(seen, { light: [], dark: [] })
  await press(theirs, 'I have saved it, sign in')
  await theirs.getByRole('heading', { name: 'Overview', level: 1 }).waitFor()
  await theirs.getByText('Lena').first().waitFor()
  assert.ok(addresses.length > 2 && !addresses.some((address) => address.includes('gatehouse_')))

  const other = await openPage(browser)
  await other.goto(link)
  await other.getByRole('heading', { name: 'This invitation was used' }).waitFor()
  // Another link in the same tab, without loading the page again.
  await other.goto(`${origin}/dashboard/invitation#x`)
  await other.getByRole('heading', { name: 'This link does not work' }).waitFor()
  await other.getByRole('link', { name: 'Go to sign-in' }).click()
  await other.getByRole('heading', { name: 'Sign in to Gatehouse' }).waitFor()

  await page.reload()
  await invitation.getByText('Accepted').waitFor()
  await invitation.getByRole('button', { name: 'Create link' }).click()
  await page.getByRole('dialog').getByText('1 day', { exact: true }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Create link' }).click()
  const second = await page.getByLabel('Invitation link').innerText()
  noteToken(second.split('#')[1] ?? '')
  await press(page, 'I have copied it')
  await invitation.getByRole('button', { name: 'Withdraw…' }).click()
  await press(page, 'Withdraw')
  await invitation.getByText('Withdrawn').waitFor()
  await other.goto(second)
  await other.getByRole('heading', { name: 'This invitation was withdrawn' }).waitFor()
  assert.deepEqual([...page.faults, ...theirs.faults, ...other.faults], [])
})

test('a link that is refused after the user was created is tried again without another user, and no button moves', async () => {
  const admin = await newAccount()
  const page = await openPage(browser)
  await signIn(page, origin, admin.token, '/people')
  await press(page, 'Create user')
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Name').fill('Lena')
  await dialog.getByLabel('Email').fill('lena@example.com')
  const create = dialog.getByRole('button', { name: 'Create user' })
  const before = await create.boundingBox()
  await page.route('**/invitation', (route) => (route.request().method() === 'POST' ? route.abort() : route.continue()))
  await create.click()
  await dialog.getByRole('alert').waitFor()
  assert.deepEqual(await create.boundingBox(), before)
  await page.unroute('**/invitation')
  await create.click()
  noteToken((await page.getByLabel('Invitation link').innerText()).split('#')[1] ?? '')
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
