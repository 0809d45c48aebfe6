// `npm run drill -- nine-tasks <folder> <numbers>`: nine tasks of an operator as a new user does them in the dashboard. It counts
// clicks and keys, makes a picture of every step, and fails if a task cannot be done or takes more clicks than it may.
import { mkdir } from 'node:fs/promises'
import { ensureDashboard } from '../../dev/dashboard.ts'
import { openBrowser, openPage, signIn } from '../dashboard/browser.ts'
import { drill } from '../harness/drill.ts'
import { createHand, makeSheet } from '../nine_tasks/hand.ts'
import { tasks } from '../nine_tasks/tasks.ts'
import { startWorld } from '../nine_tasks/world.ts'

const folder = process.argv[2] ?? 'nine-tasks'
const wanted = process.argv[3]?.split(',').map(Number)

await ensureDashboard()
await drill(async (scope) => {
  await mkdir(folder, { recursive: true })
  const world = await startWorld(scope)
  const browser = await openBrowser(scope)
  const page = await openPage(browser, { viewport: { width: 1440, height: 900 } })
  await signIn(page, world.origin, world.admin.token)
  let isGood = true
  for (const { number, title, before, most, run } of tasks) {
    if (wanted && !wanted.includes(number)) continue
    await page.goto(`${world.origin}/dashboard/`)
    await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor()
    const name = `task-${number}`
    const hand = createHand(page, folder, name)
    const failure = await run(hand, page, world).then(
      () => undefined,
      async (error: Error) => {
        await hand.look(`failed: ${error.message.split('\n')[0]}`)
        return error
      },
    )
    if (failure) console.error(failure)
    const sheet = await makeSheet(browser, folder, name, hand)
    const { clicks, keys } = hand.spent
    const isWithin = failure === undefined && clicks <= (most ?? clicks)
    isGood &&= isWithin
    console.log(
      `${number} ${title}: ${failure ? 'FAILS' : `${clicks} clicks, ${keys} keys`}${isWithin ? '' : ' (too many)'}; before: ${before}; ${sheet}`,
    )
  }
  for (const fault of page.faults) console.error(fault)
  return isGood && page.faults.length === 0
})
