// `npm run drill -- change-tasks <folder>`: to see who a change would refuse, and to take it back, as a new user does it in the dashboard.
// A real edge node is asked after each task whether what the page says is so. It counts clicks and keys, makes a picture of every step, and
// fails if a task cannot be done or takes more clicks than it may.
import { mkdir } from 'node:fs/promises'
import { ensureDashboard } from '../../dev/dashboard.ts'
import { openBrowser, openPage, signIn } from '../dashboard/browser.ts'
import { drill } from '../harness/drill.ts'
import { startWorld, tasks } from '../nine_tasks/change_tasks.ts'
import { createHand, makeSheet } from '../nine_tasks/hand.ts'

const folder = process.argv[2] ?? 'change-tasks'

await ensureDashboard()
await drill(async (scope) => {
  await mkdir(folder, { recursive: true })
  const world = await startWorld(scope)
  const browser = await openBrowser(scope)
  const page = await openPage(browser, { viewport: { width: 1440, height: 900 } })
  await signIn(page, world.origin, world.admin.token)
  let isGood = true
  for (const { number, title, before, most, run } of tasks) {
    await page.goto(`${world.origin}/dashboard/`)
    await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor()
    const hand = createHand(page, folder, `task-${number}`)
    await run(hand, page, world)
    await hand.look('the end')
    const sheet = await makeSheet(browser, folder, `task-${number}`, hand)
    const { clicks, keys } = hand.spent
    isGood &&= clicks <= most
    console.log(
      `${number} ${title}: ${clicks} clicks, ${keys} keys${clicks > most ? ' (too many)' : ''}; before: ${before}; ${sheet}`,
    )
  }
  for (const fault of page.faults) console.error(fault)
  return isGood && page.faults.length === 0
})
