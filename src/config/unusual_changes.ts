import type { UnusualAbove } from '../kernel/unusual_change.ts'
import { setting } from './setting.ts'
import { wholeNumber } from './values.ts'

export const unusualChangeSettings = {
  GATEHOUSE_UNUSUAL_CHANGE_ENTRIES: setting({
    default: '20',
    help: "One change must be confirmed if it removes or adds more than this many of a policy's rules, or of an account's edges, routes and backends, and more than the percentage below.",
    parse: wholeNumber(0, 1_000_000_000),
  }),
  GATEHOUSE_UNUSUAL_CHANGE_PERCENT: setting({
    default: '50',
    help: 'Percentage of what was there before the change.',
    parse: wholeNumber(0, 100),
  }),
}

export const unusualAboveIn = (config: Readonly<Record<keyof typeof unusualChangeSettings, number>>): UnusualAbove => ({
  entries: config.GATEHOUSE_UNUSUAL_CHANGE_ENTRIES,
  percent: config.GATEHOUSE_UNUSUAL_CHANGE_PERCENT,
})
