// What waits to be confirmed, on every page of the dashboard.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { newUser } from '../harness/principals.ts'
import { openBrowser, openPage, openTab, press, signIn, startDashboard } from './browser.ts'

const plane = await startDashboard({ after })
const browser = await openBrowser({ after })

test('a change set that is applied for a limited time is confirmed from any page', async () => {
  const admin = await plane.newAccount()
  const { body: policy } = await admin('POST', '/ip_policies', { description: 'before' })
  const applied = async (description: string, seconds: number) => {
    const changes = [{ operation: 'ip_policies.update', parameters: { id: policy.id }, body: { description } }]
    const { body } = await admin('POST', '/change_sets', { description: `rename to ${description}`, changes })
    const { status, text } = await admin('POST', `/change_sets/${body.id}/apply`, { confirm_within_seconds: seconds })
    assert.equal(status, 200, text)
    return `/change_sets/${body.id}`
  }
  const first = await applied('one', 600)
  const page = await openPage(browser)
  const { origin } = plane.processes[0] ?? assert.fail()
  await signIn(page, origin, admin.token)
  await page.getByText('“rename to one” is applied for a limited time').waitFor()
  assert.match((await page.getByRole('timer').textContent()) ?? '', /^in (10:00|9:\d\d)$/)
  await openTab(page, 'Edges')
  await press(page, 'Confirm')
  await page.getByText('“rename to one”').waitFor({ state: 'detached' })
  assert.equal((await admin('GET', first)).body.state, 'confirmed')

  const second = await applied('two', 5)
  await admin('PATCH', `/ip_policies/${policy.id}`, { description: 'theirs' })
  await page.getByText('“rename to two” was not confirmed in time, and could not be undone').waitFor()
  await page.getByText(/has another description/).waitFor()
  const viewer = await newUser(plane, admin, 'viewer')
  const other = await openPage(browser)
  await signIn(other, origin, viewer.token)
  await other.getByText('“rename to two” was not confirmed in time').waitFor()
  assert.equal(await other.getByRole('button', { name: 'Keep the changes' }).count(), 0)
  await press(page, 'Keep the changes')
  await page.getByText('“rename to two”').waitFor({ state: 'detached' })
  assert.equal((await admin('GET', second)).body.state, 'confirmed')
})
