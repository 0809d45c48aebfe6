import { readFile } from 'node:fs/promises'
import type { Page } from 'playwright-core'

const axe = await readFile(new URL(import.meta.resolve('axe-core/axe.min.js')), 'utf8')

type Fault = { id: string; impact: string; nodes: { html: string; failureSummary: string }[] }
/** One theme is checked by all rules and the other by those about colors: nothing else differs. */
const rules = { light: {}, dark: { runOnly: { type: 'rule', values: ['color-contrast', 'link-in-text-block'] } } }
const themes = ['light', 'dark'] as const
export type Seen = Record<(typeof themes)[number], string[]>

/**
 * Adds what axe finds in either theme. Switching is far cheaper than loading the page again. A dialog is inspected alone: the
 * page behind it cannot be used, and has been inspected without it.
 */
export async function inspect(page: Page, what: string, seen: Seen, within = 'html'): Promise<void> {
  for (const theme of themes) {
    await page.emulateMedia({ colorScheme: theme })
    const options = JSON.stringify({ ...rules[theme], resultTypes: ['violations'] })
    // Through the debugger, since the page's own policy runs no script but its own. Once for each document.
    const isThere = await page.evaluate<boolean>('Boolean(globalThis.axe)')
    const found = await page.evaluate<Fault[]>(
      `${isThere ? '' : axe}; axe.run('${within}', ${options}).then(({ violations }) => violations)`,
    )
    for (const { id, impact, nodes } of found)
      if (impact === 'serious' || impact === 'critical')
        for (const { html, failureSummary } of nodes) seen[theme].push(`${what}: ${id}: ${html}\n${failureSummary}`)
  }
}
