import assert from 'node:assert/strict'
import type { Locator, Page } from 'playwright-core'
import { poll } from '../harness/poll.ts'
import { goTo } from './browser.ts'

/** Every control is reached with Tab, and used with the keys that it is used with. */
export function keyboardOf(page: Page) {
  const isFocused = async (wanted: Locator) => (await wanted.and(page.locator(':focus')).count()) > 0

  /** Presses Tab until the control has the focus. One that is not ready yet cannot be used. */
  async function tabTo(wanted: Locator): Promise<void> {
    await poll(() => wanted.isEnabled())
    for (let presses = 0; presses < 80; presses++) {
      if (await isFocused(wanted)) return
      await page.keyboard.press('Tab')
    }
    assert.fail(`80 times Tab does not reach ${wanted}`)
  }
  const button = (name: string) => page.getByRole('button', { name, exact: true })
  async function use(name: string): Promise<void> {
    await tabTo(button(name).last())
    await page.keyboard.press('Enter')
  }
  async function type(label: string, text: string): Promise<void> {
    await tabTo(page.getByLabel(label, { exact: true }))
    await page.keyboard.press('Control+a')
    await page.keyboard.insertText(text)
  }
  /** An entry of the menu that a button opens. */
  async function choose(menu: string, name: string): Promise<void> {
    await use(menu)
    const entry = page.getByRole('menuitem', { name })
    await entry.waitFor()
    for (let presses = 0; presses < 10 && !(await isFocused(entry)); presses++) await page.keyboard.press('ArrowDown')
    await page.keyboard.press('Enter')
  }
  const open = async (path: string, heading: string) => {
    await goTo(page, path)
    await page.getByRole('heading', { name: heading, level: 1 }).waitFor()
  }
  return { isFocused, tabTo, use, type, choose, open }
}
