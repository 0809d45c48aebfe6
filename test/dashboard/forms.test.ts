// A form whose input the API refuses: the error stands at that input, in words that need no knowledge of the API.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Locator } from 'playwright-core'
import { make } from '../harness/fixtures.ts'
import { holdsFor, poll } from '../harness/poll.ts'
import { goTo, openBrowser, openPage, press, signIn, startDashboard } from './browser.ts'
import { furnish } from './furnish.ts'

const { origin, newAccount } = await startDashboard({ after })
const browser = await openBrowser({ after })
const admin = await newAccount()
const { policy, edge } = await furnish(admin)

const page = await openPage(browser)
await signIn(page, origin, admin.token)

async function discard(dialog: Locator): Promise<void> {
  await page.keyboard.press('Escape')
  const question = page.getByRole('button', { name: 'Discard changes' })
  // It is not asked about an input that has its first value again.
  const isClosed = page.locator('body:not(:has([role="dialog"]))')
  await question.or(isClosed).first().waitFor()
  if ((await isClosed.count()) === 0) await question.click()
  await dialog.waitFor({ state: 'detached' })
}

async function openForm(path: string, button: string): Promise<Locator> {
  const dialog = page.getByRole('dialog')
  if ((await dialog.count()) > 0) await discard(dialog)
  if (page.url() !== `${origin}/dashboard${path}`) await goTo(page, path)
  await press(page, button)
  await dialog.waitFor()
  return dialog
}

/** With the choices that there are now: a page keeps those that it has read for a while. */
async function loadForm(path: string, button: string): Promise<Locator> {
  await page.goto(`${origin}/dashboard${path}`)
  return openForm(path, button)
}

/** Submits, and checks that the API's 400 or 409 is shown at the input and nowhere else. */
async function assertRefusedAt(input: Locator, text: string | RegExp, submit: Locator): Promise<void> {
  const answered = page.waitForResponse((response) => response.status() >= 400)
  await submit.click()
  const { details } = await (await answered).json()
  assert.ok(details.field, 'the API names the field')
  await page.locator('.field-error').filter({ hasText: text }).waitFor()
  assert.equal(await input.getAttribute('aria-invalid'), 'true')
  const described = (await input.getAttribute('aria-describedby'))?.split(' ') ?? []
  const texts = await Promise.all(described.map((id) => page.locator(`[id="${id}"]`).textContent()))
  assert.match(texts.join('\n'), text instanceof RegExp ? text : new RegExp(RegExp.escape(text)))
  await input.and(page.locator(':focus')).waitFor()
  assert.equal(await page.getByRole('alert').count(), 0, 'said once, at the input')
}

const long = 'x'.repeat(300)
const tooLong = 'Description must be at most 255 bytes of UTF-8 (it has 300).'
const save = (dialog: Locator, name: string) => dialog.getByRole('button', { name, exact: true })

const forms: [path: string, button: string, action: string][] = [
  ['/keys', 'Create key', 'Create API key'],
  ['/policies', 'Create policy', 'Create IP policy'],
  [`/policies/${policy.id}`, 'More actions > Rename', 'Save'],
  ['/restrictions', 'Create restriction', 'Create with warnings only'],
  ['/restrictions', 'Actions for offices only > Edit…', 'Save'],
  ['/edges', 'Create TCP edge', 'Create edge'],
  ['/alerts', 'Create alert rule', 'Create alert rule'],
  ['/edges', 'Create HTTPS edge', 'Create edge'],
  ['/backends', 'Create backend', 'Save backend'],
  ['/backends', 'Actions for app.internal:8080 > Edit…', 'Save backend'],
  [`/edges/${edge.id}`, 'More actions > Rename', 'Save'],
  [`/edges/${edge.id}`, 'Add route', 'Save route'],
]

test('a description that is too long is marked in every form that has one, and saved once it is shorter', async () => {
  for (const [path, button, action] of forms) {
    const dialog = await openForm(path, button)
    const input = dialog.getByLabel('Description')
    await input.fill(long)
    // What the other inputs need for the API to get as far.
    if (button === 'Create TCP edge') await dialog.getByLabel('Hostports').fill('long.example:20009')
    if (button === 'Create HTTPS edge') await dialog.getByLabel('Hostports').fill('long.example:443')
    if (button === 'Create backend') await dialog.getByLabel('Address').fill('long.internal:80')
    if (button === 'Create restriction') await dialog.getByLabel('offices').check()
    if (button === 'Add route') await dialog.getByLabel('Path', { exact: true }).fill('/long')
    await assertRefusedAt(input, tooLong, save(dialog, action))
    // An error is about the value that was sent: it goes as soon as that changes.
    await input.fill('short')
    await dialog.locator('.field-error').waitFor({ state: 'detached' })
    assert.notEqual(await input.getAttribute('aria-invalid'), 'true')
    await discard(dialog)
  }
  const dialog = await openForm(`/policies/${policy.id}`, 'More actions > Rename')
  await dialog.getByLabel('Description').fill(long)
  await assertRefusedAt(dialog.getByLabel('Description'), tooLong, save(dialog, 'Save'))
  await dialog.getByLabel('Description').fill('offices')
  await save(dialog, 'Save').click()
  await dialog.waitFor({ state: 'detached' })
  assert.deepEqual(page.faults, [])
})

test('the impact moves no button when it arrives, and a description is not part of what is tried', async () => {
  const dialog = await openForm('/restrictions', 'Create restriction')
  const tried: (string | null)[] = []
  const arrival = Promise.withResolvers<void>()
  const trials = /\/ip_restrictions\?dry_run=true/
  await page.route(trials, async (route) => {
    tried.push(route.request().postData())
    await arrival.promise
    await route.continue()
  })
  await dialog.getByLabel('Description').fill('words')
  await dialog.getByLabel('offices').check()
  const impact = dialog.getByRole('region', { name: 'Impact' })
  await impact.waitFor()
  const place = () => save(dialog, 'Create with warnings only').boundingBox()
  const before = await place()
  arrival.resolve()
  await impact.and(page.locator('[aria-busy="false"]')).waitFor()
  assert.deepEqual(await place(), before)
  await dialog.getByLabel('Description').fill('other words')
  await holdsFor(500, () => tried.length === 1)
  assert.ok(!tried[0]?.includes('words'), `${tried[0]}`)
  await page.unroute(trials)
  await discard(dialog)
  const edit = await openForm('/restrictions', 'Actions for offices only > Edit…')
  await edit.getByLabel('Description').fill('more words')
  const untried = edit.getByRole('region', { name: 'Impact' }).getByText('Make a change to see')
  await holdsFor(500, async () => (await untried.count()) === 1)
  await discard(edit)
})

test('a collapsed field is expanded when it is wrong', async () => {
  const dialog = await openForm('/keys', 'Create key')
  await dialog.getByText('Metadata').first().click()
  await dialog.getByLabel('Metadata').fill('x'.repeat(5_000))
  await dialog.getByText('Metadata').first().click()
  await dialog.getByLabel('Metadata').waitFor({ state: 'hidden' })
  await assertRefusedAt(
    dialog.getByLabel('Metadata'),
    'Metadata must be at most 4096 bytes of UTF-8 (it has 5000).',
    save(dialog, 'Create API key'),
  )
})

test('hostports, addresses and paths say what is wrong with them', async () => {
  let dialog = await openForm('/edges', 'Create TCP edge')
  await dialog.getByLabel('Hostports').fill('db.example:20002 nonsense')
  await assertRefusedAt(dialog.getByLabel('Hostports'), /^Entry 2 must /m, save(dialog, 'Create edge'))

  dialog = await openForm('/edges', 'Create HTTPS edge')
  await dialog.getByLabel('Hostports').fill('app.example:443')
  await assertRefusedAt(
    dialog.getByLabel('Hostports'),
    `app.example:443 belongs to the edge ${edge.id} of this account. Remove it there first.`,
    save(dialog, 'Create edge'),
  )

  dialog = await openForm(`/edges/${edge.id}`, 'More actions > Edit hostports…')
  await dialog.getByLabel('Hostports').fill('app.example:443\nnonsense')
  await assertRefusedAt(dialog.getByLabel('Hostports'), /^Entry 2 must /m, save(dialog, 'Save hostports'))
  await dialog.getByLabel('Hostports').fill('app.example:443\nalso.example:443')
  await save(dialog, 'Save hostports').click()
  await page.getByRole('heading', { name: 'also.example:443' }).waitFor()
  await dialog.waitFor({ state: 'detached' })

  dialog = await openForm('/backends', 'Create backend')
  await dialog.getByLabel('Address').fill('nonsense')
  await assertRefusedAt(dialog.getByLabel('Address'), /^Address must /m, save(dialog, 'Save backend'))

  dialog = await openForm(`/edges/${edge.id}`, 'Add route')
  await dialog.getByLabel('Path', { exact: true }).fill('nonsense')
  await assertRefusedAt(dialog.getByLabel('Path', { exact: true }), /^Path must /m, save(dialog, 'Save route'))
  await dialog.getByLabel('Path', { exact: true }).fill('/')
  await assertRefusedAt(
    dialog.getByLabel('Path', { exact: true }),
    'This HTTPS edge already has a route with this match.',
    save(dialog, 'Save route'),
  )

  dialog = await openForm(`/policies/${policy.id}`, 'Add rule')
  await dialog.getByLabel('Address or range').fill('300.1.2.3')
  await save(dialog, 'Add rule').click()
  await dialog.getByText(/^Address or range must /).waitFor()
  assert.equal(await dialog.getByLabel('Address or range').getAttribute('aria-invalid'), 'true')
})

test('a choice that was deleted meanwhile is marked where it was chosen', async () => {
  const gone = await make(admin, '/bot_users', { name: 'gone' })
  let dialog = await loadForm('/keys', 'Create key')
  await dialog.getByLabel('Owner', { exact: true }).selectOption('gone (bot)')
  await admin('DELETE', `/bot_users/${gone.id}`)
  await assertRefusedAt(
    dialog.getByLabel('Owner', { exact: true }),
    'Owner must be an active user or bot of this account.',
    save(dialog, 'Create API key'),
  )

  const backend = await make(admin, '/backends/static', { address: 'gone.internal:80' })
  dialog = await loadForm(`/edges/${edge.id}`, 'Add route')
  await dialog.getByLabel('Path', { exact: true }).fill('/gone')
  await dialog.getByLabel('Backend').selectOption('gone.internal:80')
  await admin('DELETE', `/backends/static/${backend.id}`)
  await assertRefusedAt(
    dialog.getByLabel('Backend'),
    'Backend must be a backend of this account.',
    save(dialog, 'Save route'),
  )

  for (const [path, button, action] of [
    ['/restrictions', 'Create restriction', 'Create with warnings only'],
    [`/edges/${edge.id}`, 'Change allowed addresses of app.example:443/', 'Save'],
  ] as const) {
    const policy = await make(admin, '/ip_policies', { description: 'gone policy' })
    dialog = await loadForm(path, button)
    await dialog.getByLabel('gone policy').check()
    await admin('DELETE', `/ip_policies/${policy.id}`)
    await assertRefusedAt(
      dialog.getByRole('checkbox').first(),
      /Entry \d must be an IP policy of this account\./,
      save(dialog, action),
    )
  }
})

test('an error that no input caused is above the buttons, with what to do and the operation', async () => {
  const gone = await make(admin, '/ip_policies', { description: 'soon gone' })
  const dialog = await openForm(`/policies/${gone.id}`, 'More actions > Rename')
  await dialog.getByLabel('Description').fill('changed')
  await admin('DELETE', `/ip_policies/${gone.id}`)
  await save(dialog, 'Save').click()
  await dialog.getByRole('alert').getByText('This account has no such IP policy.').waitFor()
  await dialog
    .getByRole('alert')
    .getByText(/ERR_NOT_FOUND · op_/)
    .waitFor()
  assert.equal(await dialog.locator('[aria-invalid=true]').count(), 0)
})

test('while it saves, a form cannot be sent again or left', async () => {
  const requests: string[] = []
  let go = () => {}
  const held = new Promise<void>((resolve) => {
    go = resolve
  })
  await page.route('**/ip_policies', async (route) => {
    if (route.request().method() !== 'POST') return route.continue()
    requests.push(route.request().url())
    await held
    return route.continue()
  })
  const dialog = await openForm('/policies', 'Create policy')
  await dialog.getByLabel('Description').fill('once')
  await dialog.getByLabel('Description').press('Enter')
  const button = save(dialog, 'Create IP policy')
  await poll(
    () => button.getAttribute('aria-disabled'),
    (disabled) => disabled === 'true',
  )
  await dialog.getByLabel('Description').press('Enter')
  await dialog.getByLabel('Description').press('Escape')
  await holdsFor(200, () => dialog.isVisible())
  assert.ok(await dialog.getByRole('button', { name: 'Cancel' }).isDisabled())
  go()
  await page.getByText('No rules. This policy allows no address.').waitFor()
  assert.equal(requests.length, 1)
  await page.unroute('**/ip_policies')
})

test('checking something that is not an address says so at the input', async () => {
  await page.goto(`${origin}/dashboard/check`)
  const input = page.getByLabel('Address', { exact: true })
  await input.fill('hello')
  await page.getByRole('button', { name: 'Check', exact: true }).click()
  const error = page.getByText('Address must be an IPv4 or IPv6 address')
  await error.waitFor()
  assert.equal(await input.getAttribute('aria-invalid'), 'true')
  await input.and(page.locator(':focus')).waitFor()
  assert.equal(await page.getByRole('region', { name: 'Evaluation' }).count(), 0)
  await input.fill('127.0.0.2')
  await error.waitFor({ state: 'detached' })
  await input.press('Enter')
  await page.getByRole('region', { name: 'Evaluation' }).getByText('Allowed', { exact: true }).waitFor()
  // Even when it comes with the URL, as from a link that was sent.
  await page.goto(`${origin}/dashboard/check?ip=hello&target=api`)
  await error.waitFor()
  assert.equal(await page.getByRole('region', { name: 'Evaluation' }).count(), 0)
})
