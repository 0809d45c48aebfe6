import { readFile } from 'node:fs/promises'
import type { Page } from 'playwright-core'

const axe = await readFile(new URL(import.meta.resolve('axe-core/axe.min.js')), 'utf8')

type Fault = { id: string; impact: string; nodes: { html: string; failureSummary: string }[] }
export const themes = ['light', 'dark'] as const
type Theme = (typeof themes)[number]
export type Seen = Record<Theme, string[]>
/** The first theme is checked by all rules and the other by those about colors: nothing else differs. */
const aboutColors = { runOnly: { type: 'rule', values: ['color-contrast', 'link-in-text-block'] } }
/** What a rule finds has the impact of the rule, so the others would find nothing that counts. */
const leaveOutTheOthers = `
  for (const rule of axe._audit.rules) if (!['serious', 'critical'].includes(rule.impact ?? 'serious')) rule.enabled = false`

/**
 * Adds what axe finds in these themes. Switching is far cheaper than loading the page again. A dialog is inspected alone: the
 * page behind it cannot be used, and has been inspected without it.
 */
export async function inspect(
  page: Page,
  what: string,
  seen: Seen,
  within = 'html',
  inThemes: readonly Theme[] = themes,
): Promise<void> {
  for (const theme of inThemes) {
    await page.emulateMedia({ colorScheme: theme })
    const options = JSON.stringify({ ...(theme !== inThemes[0] && aboutColors), resultTypes: ['violations'] })
    // What a screen reader is to say stays there for seconds, even when what it names is gone.
    const context = JSON.stringify({ include: [within], exclude: ['[data-live-announcer]'] })
    // Through the debugger, since the page's own policy runs no script but its own. Once for each document.
    const isThere = await page.evaluate<boolean>('Boolean(globalThis.axe)')
    const found = await page.evaluate<Fault[]>(
      `${isThere ? '' : axe + leaveOutTheOthers}; axe.run(${context}, ${options}).then(({ violations }) => violations)`,
    )
    for (const { id, impact, nodes } of found)
      if (impact === 'serious' || impact === 'critical')
        for (const { html, failureSummary } of nodes) seen[theme].push(`${what}: ${id}: ${html}\n${failureSummary}`)
  }
}
