// What each place of the dashboard says about how a thing is, as a person sees it.
import type { Locator, Page } from 'playwright-core'
import { goTo, usualSize } from './browser.ts'

const states: Record<string, string> = { up: 'up', partial: 'degraded', down: 'down', unknown: 'unknown' }
const badges: Record<string, string> = { allowed: 'up', warned: 'degraded', refused: 'down', neutral: 'unknown' }

/** By shape and color: words of a state vary. */
async function stateIn(within: Locator): Promise<string> {
  const mark = within.locator('.state, .badge').first()
  await mark.waitFor()
  const [kind, name = ''] = ((await mark.getAttribute('class')) ?? '').split(' ')
  return (kind === 'badge' ? badges[name] : states[name]) ?? name
}

export const listSays = (page: Page, name: string): Promise<string> =>
  stateIn(page.getByRole('row').filter({ hasText: name }).first())

export async function detailSays(page: Page, path: string, name: string): Promise<string> {
  await goTo(page, path)
  const title = page.locator('.page-title').filter({ hasText: name })
  await title.waitFor()
  return stateIn(title)
}

export async function searchSays(page: Page, name: string): Promise<string> {
  await page.keyboard.press('Control+k')
  const dialog = page.getByRole('dialog', { name: 'Search' })
  await dialog.waitFor()
  await page.keyboard.insertText(name)
  const found = await stateIn(page.getByRole('menuitem').filter({ hasText: name }).first())
  await page.keyboard.press('Escape')
  await dialog.waitFor({ state: 'detached' })
  return found
}

/** Titles of what needs attention, such as 'Node edge-2 is down', and the sentences above them. */
export async function overviewSays(page: Page): Promise<{ summary: string; items: string[] }> {
  await page.setViewportSize(usualSize)
  const summary = page.locator('.page-head .summary').filter({ hasText: /attention/ })
  await summary.waitFor()
  const more = page.getByRole('list', { name: 'Needs attention' }).getByRole('button', { name: /^Show \d+ more$/ })
  if (await more.count()) await more.click()
  const items = await page.getByRole('list', { name: 'Needs attention' }).locator('p.strong').allInnerTexts()
  return { summary: await summary.innerText(), items }
}

/** What is marked in the menu: 'Edges: 2 edges are down'. */
export const sidebarSays = (page: Page): Promise<string[]> =>
  page
    .getByRole('navigation', { name: 'Pages' })
    .locator('a[title*=": "]')
    .evaluateAll((links: { title: string }[]) => links.map(({ title }) => title))

/** Columns side by side. */
export function asTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((title, at) => Math.max(title.length, ...rows.map((row) => row[at]?.length ?? 0)))
  return [head, ...rows].map((row) => row.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join('  ')).join('\n')
}
