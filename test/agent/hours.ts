import { hourOf } from '../../src/kernel/clock.ts'

/** Again when an hour began meanwhile, and with it a window of a limit. */
export async function withinAnHour(run: () => Promise<void>): Promise<void> {
  const hour = () => hourOf(Date.now())
  const before = hour()
  await run().catch(async (error) => {
    if (hour() === before) throw error
    await run()
  })
}
