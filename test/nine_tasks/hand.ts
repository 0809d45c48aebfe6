import { join } from 'node:path'
import type { Browser, Locator } from 'playwright-core'
import { openPage, type Watched } from '../dashboard/browser.ts'

/** What a new user does, and what it takes. A picture shows what was on the screen after each step. */
export type Hand = ReturnType<typeof createHand>

/** Counts what the page is touched with. A choice in a list is a click to open it and one to choose. */
export function createHand(page: Watched, folder: string, name: string) {
  const spent = { clicks: 0, keys: 0 }
  const pictures: { file: string; caption: string }[] = []

  /** After what the step has begun: pages load, and dialogs open. */
  async function look(caption: string): Promise<void> {
    await page.waitForTimeout(400)
    const file = `${name}-${pictures.length + 1}.png`
    await page.screenshot({ path: join(folder, file) })
    pictures.push({ file, caption })
  }
  const click = async (what: Locator, caption: string) => {
    spent.clicks++
    await what.click()
    await look(caption)
  }
  const button = (label: string | RegExp, within: Locator | Watched = page) =>
    within.getByRole('button', { name: label, exact: true })
  return {
    spent,
    pictures,
    look,
    click,
    /** A page, by the menu. */
    go: (title: string) =>
      click(page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: title, exact: true }), title),
    follow: (label: string | RegExp) =>
      click(page.getByRole('main').getByRole('link', { name: label, exact: true }).first(), `link ${label}`),
    press: (label: string | RegExp, within?: Locator) => click(button(label, within), `button ${label}`),
    /** An entry of a menu. */
    pick: async (menu: string, entry: string) => {
      spent.clicks++
      await button(menu).click()
      await click(page.getByRole('menuitem', { name: entry, exact: true }), `${menu}, ${entry}`)
    },
    check: (label: string) => click(page.getByLabel(label, { exact: true }), label),
    choose: async (label: string, option: string) => {
      spent.clicks += 2
      await page.getByLabel(label, { exact: true }).selectOption(option)
      await look(`${label}: ${option}`)
    },
    /** Into the input that has the focus, or one that is clicked. */
    type: async (label: string, text: string) => {
      const field = page.getByLabel(label, { exact: true })
      if (!(await field.evaluate((element) => element.matches(':focus')))) spent.clicks++
      spent.keys += text.length
      await field.fill(text)
      await look(`${label}: ${text}`)
    },
    /** Pasting takes one key, however long the text is. */
    paste: async (text: string) => {
      spent.keys++
      await page.keyboard.insertText(text)
      await look('pasted')
    },
    keys: async (...names: string[]) => {
      spent.keys += names.length
      for (const each of names) await page.keyboard.press(each)
      await look(names.join(' '))
    },
  }
}

/** The steps of a task in one picture. */
export async function makeSheet(browser: Browser, folder: string, name: string, hand: Hand): Promise<string> {
  const { readFile } = await import('node:fs/promises')
  const steps = await Promise.all(
    hand.pictures.map(async ({ file, caption }, index) => {
      const image = (await readFile(join(folder, file))).toString('base64')
      const text = caption.replaceAll('<', '&lt;')
      return `<figure><figcaption>${index + 1}. ${text}</figcaption><img src="data:image/png;base64,${image}"></figure>`
    }),
  )
  const page = await openPage(browser, { viewport: { width: 1640, height: 900 } })
  await page.setContent(
    `<style>body{margin:8px;display:grid;grid-template-columns:1fr 1fr;gap:8px;background:#999;font:20px sans-serif}
    figure{margin:0}img{width:100%;display:block}</style>${steps.join('')}`,
  )
  const file = join(folder, `${name}.png`)
  await page.screenshot({ path: file, fullPage: true })
  await page.context().close()
  return file
}
