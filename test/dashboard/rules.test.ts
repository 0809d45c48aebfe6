import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { after, test } from 'node:test'
import { make } from '../harness/fixtures.ts'
import { putRules } from '../harness/ip.ts'
import { goTo, openBrowser, openPage, press, signIn, startDashboard } from './browser.ts'

const { origin, newAccount } = await startDashboard({ after })
const browser = await openBrowser({ after })
const admin = await newAccount()
const page = await openPage(browser, { acceptDownloads: true })
await signIn(page, origin, admin.token)

const rulesOf = async (id: string): Promise<string[]> => {
  const { body } = await admin('GET', `/ip_policies/${id}/rules`)
  return body.rules
    .map((rule: { action: string; cidr: string; description?: string }) =>
      [rule.action, rule.cidr, rule.description].filter(Boolean).join(' '),
    )
    .sort()
}

async function newPolicy(description: string, ...lines: string[]): Promise<string> {
  const { id } = await make(admin, '/ip_policies', { description })
  await putRules(admin, id, lines)
  return id
}

test('rules are edited, selected and removed in a draft that says what it would do, and exported', async () => {
  const id = await newPolicy('partners', 'allow 127.0.0.0/8 # here', 'allow 192.0.2.0/28 # old', 'deny 192.0.2.9 # bad')
  await make(admin, '/ip_restrictions', { type: 'api', ip_policy_ids: [id], enforced: true })
  await goTo(page, `/policies/${id}`)
  await press(page, 'Actions for allow 192.0.2.0/28 > Edit rule…')
  const form = page.getByRole('dialog', { name: 'Change allow 192.0.2.0/28' })
  await form.getByLabel('Address or range').fill('192.0.2.0/27')
  await form.getByLabel('Description').fill('new')
  await form.getByRole('button', { name: 'Change rule' }).click()
  await page.getByLabel('Select deny 192.0.2.9/32').check()
  await page.getByText('1 rule selected').waitFor()
  await press(page, 'Remove')
  await page.getByText('1 to add, 2 to remove. Not saved yet.').waitFor()
  const bar = page.getByRole('region', { name: 'Unsaved changes' })
  await bar.getByText('You keep access').waitFor()
  const [download] = await Promise.all([page.waitForEvent('download'), press(page, 'Export rules')])
  assert.equal(download.suggestedFilename(), 'partners.txt')
  assert.match(await readFile(await download.path(), 'utf8'), /^allow 192\.0\.2\.0\/27 # new$/m)
  // What was only looked at has changed nothing.
  assert.equal((await rulesOf(id)).length, 3)
  await press(page, 'Review and save')
  await press(page, 'Save rules')
  await bar.waitFor({ state: 'detached' })
  assert.deepEqual(await rulesOf(id), ['allow 127.0.0.0/8 here', 'allow 192.0.2.0/27 new'])

  await page.getByLabel('Select all rules shown').check()
  await press(page, 'Remove')
  await bar.getByText('You would be refused').waitFor()
  await press(page, 'Discard')
  assert.deepEqual(page.faults, [])
})

test('a review asks for the impact once, and saves when it is shown: what arrives later would move the button', async () => {
  const id = await newPolicy('held', 'allow 127.0.0.0/8 # here', 'allow 192.0.2.0/28 # old')
  const { promise: isReleased, resolve: release } = Promise.withResolvers<void>()
  let asked = 0
  await page.route('**/impact', async (route) => {
    asked++
    await isReleased
    await route.continue()
  })
  await goTo(page, `/policies/${id}`)
  await press(page, 'Actions for allow 192.0.2.0/28 > Remove rule')
  // The rules are read again for the review, and have not changed.
  await Promise.all([page.waitForResponse(/\/rules$/), press(page, 'Review and save')])
  const review = page.getByRole('dialog', { name: 'Change held' })
  const save = review.getByRole('button', { name: 'Save rules' })
  assert.equal(await save.isDisabled(), true)
  // A person who uses the keyboard may have reached the button already, and keeps the focus.
  await save.focus()
  await page.keyboard.press('Enter')
  assert.deepEqual(await rulesOf(id), ['allow 127.0.0.0/8 here', 'allow 192.0.2.0/28 old'])
  release()
  await review.getByText('Nothing uses this policy').waitFor()
  assert.equal(asked, 1)
  await page.keyboard.press('Enter')
  await review.waitFor({ state: 'detached' })
  assert.deepEqual(await rulesOf(id), ['allow 127.0.0.0/8 here'])
  await page.unroute('**/impact')
  assert.deepEqual(page.faults, [])
})

test('the bar of a draft stays where it is when the table grows: a button that moves is missed', async () => {
  const id = await newPolicy('growing', 'allow 127.0.0.0/8 # here')
  await goTo(page, `/policies/${id}`)
  const placeWith = async (ranges: string[]) => {
    await press(page, 'Import list')
    await page.getByLabel('One range per line').fill(ranges.join('\n'))
    await press(page, 'Import as draft')
    await page.getByText(`${ranges.length} to add, 0 to remove. Not saved yet.`).waitFor()
    return page.getByRole('button', { name: 'Review and save' }).boundingBox()
  }
  const one = await placeWith(['192.0.2.1'])
  const many = await placeWith(Array.from({ length: 50 }, (_, i) => `192.0.2.${i + 1}`))
  assert.deepEqual(many, one)
  await press(page, 'Discard')
  assert.deepEqual(page.faults, [])
})

test('a list is imported as it reads now, not as it read a moment ago', async () => {
  const id = await newPolicy('imported', 'allow 127.0.0.0/8 # here')
  await goTo(page, `/policies/${id}`)
  await press(page, 'Import list')
  const dialog = page.getByRole('dialog', { name: 'Import list' })
  await dialog.getByLabel('One range per line').fill('192.0.2.1')
  await dialog.getByText('1 valid rule').waitFor()
  await dialog.getByLabel('One range per line').fill('192.0.2.1\n192.0.2.2')
  await dialog.getByRole('button', { name: 'Import as draft' }).click()
  await page.getByText('2 to add, 0 to remove. Not saved yet.').waitFor()
  await press(page, 'Discard')
  assert.deepEqual(page.faults, [])
})

test('a refused address is allowed from its check, and a deny is changed, after a review', async () => {
  const id = await newPolicy('offices', 'allow 127.0.0.0/8 # here', 'deny 203.0.113.0/24 # resold')
  const { id: edge } = await make(admin, '/edges/tcp', { ip_restriction: { ip_policy_ids: [id] } })
  await page.goto(`${origin}/dashboard/check?ip=198.51.100.7&target=${edge}`)
  await press(page, 'Allow this address…')
  const review = page.getByRole('dialog', { name: 'Change offices' })
  await review.getByRole('region', { name: 'Impact' }).waitFor()
  await review.getByRole('button', { name: 'Save rules' }).click()
  await page.getByText('Every step allows the address.').waitFor()
  assert.deepEqual((await rulesOf(id))[1], 'allow 198.51.100.7/32 From a check')

  await page.goto(`${origin}/dashboard/check?ip=203.0.113.5&target=${edge}`)
  // No allow overrides a deny, so none is offered.
  await page.getByRole('button', { name: 'Change rule…' }).waitFor()
  assert.equal(await page.getByRole('button', { name: 'Allow this address…' }).count(), 0)
  await press(page, 'Change rule…')
  const form = page.getByRole('dialog', { name: 'Change deny 203.0.113.0/24' })
  await form.getByLabel('Action').selectOption('Allow')
  await form.getByRole('button', { name: 'Change rule' }).click()
  await review.getByRole('button', { name: 'Save rules' }).click()
  await page.getByText('Every step allows the address.').waitFor()
  assert.ok((await rulesOf(id)).includes('allow 203.0.113.0/24 resold'), String(await rulesOf(id)))
  assert.deepEqual(page.faults, [])
})

test('the search of a policy, its rows and their menus work with the keyboard alone', async () => {
  const id = await newPolicy('by keyboard', 'allow 192.0.2.0/28', 'allow 192.0.2.16/28', 'allow 192.0.2.32/28')
  await goTo(page, `/policies/${id}`)
  await page.getByLabel('Search').waitFor()
  await page.getByRole('button', { name: 'Actions for allow 192.0.2.0/28' }).focus()
  await page.keyboard.press('ArrowDown')
  await page.keyboard.press('Enter')
  await page.getByRole('menuitem', { name: 'Edit rule…' }).waitFor()
  await page.keyboard.press('ArrowDown')
  await page.keyboard.press('Enter')
  await page.getByText('0 to add, 1 to remove. Not saved yet.').waitFor()
  await page.getByLabel('Select allow 192.0.2.0/28').focus()
  await page.keyboard.press('Space')
  await page.getByText('1 rule selected').waitFor()
  await page.getByRole('button', { name: 'Review and save' }).focus()
  await page.keyboard.press('Enter')
  await page.getByRole('dialog').getByRole('button', { name: 'Save rules' }).waitFor()
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  assert.equal((await rulesOf(id)).length, 3)
  assert.deepEqual(page.faults, [])
})

test('an unusually large change shows its numbers and is made only on request', async () => {
  const ranges = Array.from({ length: 30 }, (_, index) => `allow 10.0.${index}.0/24`)
  const id = await newPolicy('many', ...ranges)
  // Not the one of the tests above, which has an unsaved draft.
  const page = await openPage(browser)
  await signIn(page, origin, admin.token)
  await goTo(page, `/policies/${id}`)
  await page.getByLabel('Select all rules shown').check()
  await press(page, 'Remove')
  await press(page, 'Review and save')
  await press(page, 'Save rules')
  await page.getByText('Of 30 rules it removes 30, and it adds 0. 0 would be left.').waitFor()
  assert.equal((await rulesOf(id)).length, 30)
  await press(page, 'Remove anyway')
  await page.getByRole('region', { name: 'Unsaved changes' }).waitFor({ state: 'detached' })
  assert.deepEqual(await rulesOf(id), [])
})
