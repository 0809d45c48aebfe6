import assert from 'node:assert/strict'
import type { Watched } from '../dashboard/browser.ts'
import { noteToken } from '../harness/client.ts'
import type { Hand } from './hand.ts'
import type { World } from './world.ts'

export type Task = {
  number: number
  title: string
  /** What a review counted when it was first done. */
  before: string
  /** Clicks that it may take. */
  most?: number
  run: (hand: Hand, page: Watched, world: World) => Promise<void>
}

const dialogOf = (page: Watched) => page.getByRole('dialog')

const saveToken = async ({ press }: Hand, page: Watched) => {
  noteToken((await page.getByLabel('Token', { exact: true }).textContent()) ?? '')
  await press('I have saved it')
}

export const tasks: readonly Task[] = [
  {
    ...{ number: 1, title: 'a key for one network, that can only read', before: '5 clicks, 2 fields', most: 5 },
    run: async (hand, page) => {
      await hand.go('API keys')
      await hand.press('Create key')
      await hand.type('Description', 'reports')
      assert.ok(await page.getByLabel('Read only').isChecked())
      await hand.type('Allowed addresses', '203.0.113.0/24')
      await hand.press('Create API key')
      await saveToken(hand, page)
    },
  },
  {
    ...{ number: 3, title: 'why was this request refused, and let it in', before: '2 clicks, 3 keys', most: 2 },
    run: async (hand, page, { refusedId, offices, admin }) => {
      await hand.keys('Control+k')
      await hand.paste(refusedId)
      await page.getByRole('menuitem', { name: refusedId }).waitFor()
      await hand.keys('Enter')
      await page.getByRole('region', { name: 'Decision' }).waitFor()
      await hand.press('Allow this address…')
      await hand.press('Save rules')
      await dialogOf(page).waitFor({ state: 'detached' })
      const { body } = await admin('GET', `/ip_policies/${offices.id}/rules`)
      assert.ok(body.rules.some(({ cidr }: { cidr: string }) => cidr === '127.0.0.1/32'))
    },
  },
  {
    ...{ number: 4, title: 'a second server, and drain the first', before: 'about 20 clicks on 3 pages', most: 6 },
    run: async (hand, page, { backend, spareAddress }) => {
      await hand.go('Backends')
      await hand.follow(backend.address)
      await hand.press('Add server')
      await hand.type('Address', spareAddress)
      await hand.press('Add server', dialogOf(page))
      await page.getByRole('heading', { name: 'Shop pool', level: 1 }).waitFor()
      await dialogOf(page).waitFor({ state: 'detached' })
      await hand.pick(`Actions for ${backend.address}`, 'Drain')
      await page.getByRole('table', { name: 'Servers' }).getByText('Drained').waitFor()
      await hand.look('drained')
    },
  },
  {
    ...{ number: 5, title: 'publish an application on a new host name', before: '7 steps on 4 pages', most: 4 },
    run: async (hand, page, { spareAddress }) => {
      await hand.go('Edges')
      await hand.press('Publish an application')
      await hand.type('Host name', 'wiki.example')
      await hand.type('Server', spareAddress)
      await hand.press('Publish', dialogOf(page))
      await page.getByRole('listitem', { name: 'Server answers' }).getByText('Up').waitFor()
      await hand.look('the checklist, when a node has it')
    },
  },
  {
    ...{
      number: 6,
      title: 'is everything healthy, and what changed in the last hour',
      before: '1 page, and 1 more; no last hour',
    },
    most: 3,
    run: async (hand, page) => {
      await page.getByText(/^Traffic is flowing on \d+ of \d+ edges/).waitFor()
      await page.getByRole('list', { name: 'Needs attention' }).getByText('Billing is down').waitFor()
      await hand.look('overview')
      await hand.go('Audit log')
      await hand.choose('Time', 'Last hour')
      await page
        .getByText(/created/)
        .first()
        .waitFor()
    },
  },
  {
    ...{ number: 8, title: 'invite a colleague who may only look', before: '11 clicks on 2 pages', most: 4 },
    run: async (hand, page) => {
      await hand.go('People and bots')
      await hand.press('Create user')
      await hand.type('Name', 'Lena')
      await hand.keys('Tab')
      await hand.type('Email', 'lena@example.com')
      await hand.press('Create user', dialogOf(page))
      const link = (await page.getByLabel('Invitation link', { exact: true }).textContent()) ?? ''
      noteToken(link.split('#')[1] ?? '')
      await hand.press('I have copied it')
    },
  },
  {
    ...{ number: 9, title: 'remove keys and rules that are not used', before: 'rules in bulk, keys one by one' },
    run: async (hand, page, { admin }) => {
      await hand.go('API keys')
      await hand.press(/^Unused/)
      await hand.press(/^Delete these 2 keys/)
      await hand.press('Delete 2 keys', dialogOf(page))
      await dialogOf(page).waitFor({ state: 'detached' })
      await hand.look('keys are gone')
      await hand.go('IP policies')
      await hand.follow('Offices')
      await hand.press(/^Never decides/)
      await hand.press('Remove this rule')
      await hand.press('Review and save')
      await hand.press('Save rules')
      await dialogOf(page).waitFor({ state: 'detached' })
      const { body } = await admin('GET', '/api_keys')
      assert.ok(!body.keys.some(({ description }: { description?: string }) => description === 'trial of March'))
    },
  },
]
