import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { after, test } from 'node:test'
import { run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { type Id, toUuid } from '../../src/kernel/ids.ts'
import { noteToken } from '../harness/client.ts'
import { openBrowser, openPage, press, signIn, signOut, startDashboard } from './browser.ts'

const { origin, newAccount, clientFor, db } = await startDashboard({ after })
const browser = await openBrowser({ after })

const curl = (token: string, path: string): string =>
  execFileSync('curl', ['-sS', '-H', `Authorization: Bearer ${token}`, '-H', 'Service-Version: 2', origin + path], {
    encoding: 'utf8',
  })

test('a key is created, its token copied and used with curl, rotated, and deleted by its name', async () => {
  const admin = await newAccount()
  const page = await openPage(browser, { permissions: ['clipboard-read', 'clipboard-write'] })
  await signIn(page, origin, admin.token, '/keys')
  await page.getByRole('button', { name: 'Create key' }).click()
  await page.getByLabel('Description').fill('nightly backup')
  await page.getByLabel('30 days').check()
  await page.getByRole('button', { name: 'Create API key' }).click()
  const shown = await page.getByLabel('Token', { exact: true }).textContent()
  await page.getByRole('button', { name: 'Copy token' }).click()
  const copied = await page.evaluate<string>('navigator.clipboard.readText()')
  noteToken(copied)
  assert.equal(copied, shown)
  assert.match(curl(copied, '/caller'), new RegExp(`"owner_id":"${admin.adminId}"`))

  await page.getByRole('button', { name: 'I have saved it' }).click()
  assert.doesNotMatch(await page.content(), new RegExp(copied), 'the token is still in the page')
  const row = page.getByRole('row').filter({ hasText: 'nightly backup' })
  await row.getByText('in 30 days').waitFor()

  await press(page, 'Actions for nightly backup > Rotate token…')
  await page.getByLabel('Old token').selectOption('Revoke immediately')
  await page.getByRole('dialog').getByRole('button', { name: 'Rotate' }).click()
  const second = (await page.getByLabel('Token', { exact: true }).textContent()) ?? ''
  noteToken(second)
  assert.match(curl(copied, '/caller'), /ERR_UNAUTHENTICATED/)
  assert.match(curl(second, '/caller'), /"owner_id"/)
  await page.getByRole('button', { name: 'I have saved it' }).click()

  await press(page, 'Actions for nightly backup > Delete key…')
  const question = page.getByRole('dialog', { name: 'Delete nightly backup?' })
  const confirm = question.getByRole('button', { name: 'Delete key' })
  assert.ok(await confirm.isDisabled())
  await question.getByLabel('Type nightly backup to confirm').fill('nightly backup')
  await confirm.click()
  await row.waitFor({ state: 'detached' })
  assert.match(curl(second, '/caller'), /ERR_UNAUTHENTICATED/)
  assert.deepEqual(page.faults, [])
})

test('a key gets usual access, and what it may call, from where and until when can be changed', async () => {
  const admin = await newAccount()
  const page = await openPage(browser)
  await signIn(page, origin, admin.token, '/keys')
  await press(page, 'Create key')
  const form = page.getByRole('dialog', { name: 'Create API key' })
  await form.getByLabel('Description').fill('pipeline')
  await form.getByLabel('Deploy pipeline').check()
  await form.getByText(/^Allows \d+ of \d+ operations$/).click()
  await form.getByRole('listitem').filter({ hasText: 'weighted_backends.update' }).waitFor()
  assert.equal(await form.getByRole('listitem').filter({ hasText: 'api_keys.create' }).count(), 0)
  await form.getByLabel('Allowed addresses').fill('192.0.2.18/28')
  await press(page, 'Use 192.0.2.16/28')
  await press(page, 'Create API key')
  noteToken((await page.getByLabel('Token', { exact: true }).textContent()) ?? '')
  await press(page, 'I have saved it')
  const shown = async () =>
    (await admin('GET', '/api_keys')).body.keys.find((key: { description?: string }) => key.description === 'pipeline')
  const created = await shown()
  for (const scope of ['*.get', 'https_edges.*', 'https_edge_routes.*', 'tcp_edges.*', 'failover_backends.*'])
    assert.ok(created.scopes.includes(scope), `${scope} in ${created.scopes}`)
  assert.deepEqual(created.allowed_cidrs, ['192.0.2.16/28'])

  await press(page, 'Actions for pipeline > Edit key…')
  const edit = page.getByRole('dialog', { name: 'Edit pipeline' })
  assert.ok(await edit.getByLabel('Deploy pipeline').isChecked())
  await edit.getByLabel('Read only').check()
  await edit.getByLabel('Allowed addresses').fill('')
  await edit.getByLabel('Date…').check()
  await edit.getByLabel('Last day').fill('2031-05-06')
  await edit.getByRole('button', { name: 'Save key' }).click()
  await edit.waitFor({ state: 'detached' })
  const changed = await shown()
  assert.ok(changed.scopes.includes('*.list') && !changed.scopes.includes('tcp_edges.*'), changed.scopes)
  assert.deepEqual([changed.allowed_cidrs, changed.expires_at.slice(0, 7)], [[], '2031-05'])
  await page.getByRole('row').filter({ hasText: 'pipeline' }).getByText('Read only').waitFor()
  assert.deepEqual(page.faults, [])
})

test('deleting a key waits until the keys created with it are known, and offers to delete them', async () => {
  const admin = await newAccount()
  const key = async (as: typeof admin, description: string) => (await as('POST', '/api_keys', { description })).body
  const leaked = await key(admin, 'leaked')
  const child = await key(clientFor(leaked.token) as typeof admin, 'child of leaked')
  const page = await openPage(browser)
  await signIn(page, origin, admin.token, '/keys')
  const { promise: isReleased, resolve: release } = Promise.withResolvers<void>()
  await page.route('**/api_keys?descendants_of=*', async (route) => {
    await isReleased
    await route.continue()
  })
  await press(page, 'Actions for leaked > Delete key…')
  const question = page.getByRole('dialog', { name: 'Delete leaked?' })
  await question.getByLabel('Type leaked to confirm').fill('leaked')
  await question.getByLabel('Type leaked to confirm').press('Enter')
  assert.ok(await question.getByRole('button', { name: 'Delete key' }).isDisabled())
  release()
  await question.getByText('Also delete the key created with it').click()
  await question.getByRole('button', { name: 'Delete keys' }).click()
  await page.getByRole('row').filter({ hasText: 'child of leaked' }).waitFor({ state: 'detached' })
  assert.match(curl(child.token, '/caller'), /ERR_UNAUTHENTICATED/)
  assert.deepEqual(page.faults, [])
})

test('a wrong token is refused with a hint and the operation id', async () => {
  const page = await openPage(browser)
  await page.goto(`${origin}/dashboard/`)
  await page.getByLabel('API key').fill('gatehouse_nonsense')
  await page.getByRole('button', { name: 'Sign in' }).click()
  const note = page.getByRole('alert')
  await note.getByText('Sign in again with the token of an active API key.').waitFor()
  await note.getByText(/ERR_UNAUTHENTICATED · op_[0-9a-z]{26}/).waitFor()
})

test('signing out ends the session; a stolen cookie is refused after its key was deleted', async () => {
  const admin = await newAccount()
  const page = await openPage(browser)
  await signIn(page, origin, admin.token)
  const cookies = await page.context().cookies()
  const [session] = cookies
  assert.deepEqual([cookies.length, session?.httpOnly, session?.sameSite], [1, true, 'Strict'])
  const withCookie = async (value: string) =>
    (await fetch(`${origin}/caller`, { headers: { cookie: `${session?.name}=${value}`, 'service-version': '2' } }))
      .status
  assert.equal(await withCookie(session?.value ?? ''), 200)
  await signOut(page)
  await page.getByRole('heading', { name: 'Sign in to Gatehouse' }).waitFor()
  assert.equal(await withCookie(session?.value ?? ''), 401)

  const { body: key } = await admin('POST', '/api_keys', { description: 'for a session' })
  await signIn(page, origin, key.token)
  const stolen = (await page.context().cookies())[0]?.value ?? ''
  assert.equal(await withCookie(stolen), 200)
  await admin('DELETE', `/api_keys/${key.id}`)
  assert.equal(await withCookie(stolen), 401)
  // The page updates without any action.
  await page.getByText('Your session has ended').waitFor()
  assert.deepEqual(page.faults, [])
})

test('the browser stores the token nowhere', async () => {
  const admin = await newAccount()
  const page = await openPage(browser)
  await signIn(page, origin, admin.token)
  const kept = await page.evaluate<string>(
    'JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie])',
  )
  assert.doesNotMatch(kept, /gatehouse_[0-9A-Za-z]{20}/)
})

test('keys that are not used go in one step, and those in use and the own one stay', async () => {
  const admin = await newAccount()
  for (const description of ['old pipeline', 'trial', 'in use']) await admin('POST', '/api_keys', { description })
  await run(
    db,
    sql`update api_keys set created_at = now() - interval '40 days'
    where account_id = ${toUuid(admin.accountId as Id<'ac'>)} and description is distinct from 'in use'`,
  )
  const page = await openPage(browser)
  await signIn(page, origin, admin.token, '/keys?show=unused')
  await press(page, 'Delete these 2 keys')
  const question = page.getByRole('dialog', { name: 'Delete 2 keys?' })
  await question.getByText('trial').waitFor()
  await question.getByRole('button', { name: 'Delete 2 keys' }).click()
  await question.waitFor({ state: 'detached' })
  await page.getByText('No matching keys').waitFor()
  const { body } = await admin('GET', '/api_keys')
  assert.deepEqual(body.keys.map(({ description }: { description?: string }) => description).filter(Boolean), [
    'in use',
    'bootstrap',
  ])
  assert.equal((await admin('GET', '/caller')).status, 200)
  assert.deepEqual(page.faults, [])
})
