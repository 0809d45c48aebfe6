import type { Shapes } from '../../api/client.ts'

export type Alert = Shapes['Alert']
export type AlertRule = Shapes['AlertRule']
export type Kind = AlertRule['kind']

type Words = {
  /** Label in the form. */
  choice: string
  /** Label of a rule without a resource. */
  everything: string
  /** Title of an alert about the named resource. */
  title: (name: string) => string
}

export const kinds: Record<Kind, Words> = {
  backend_down: {
    choice: 'A backend is down',
    everything: 'All backends in use',
    title: (name) => `${name} is down`,
  },
  node_behind: {
    choice: 'A node is behind or silent',
    everything: 'All nodes',
    title: (name) => `Node ${name} is behind or silent`,
  },
  certificate_failing: {
    choice: 'A certificate expires or fails',
    everything: 'All certificates in use',
    title: (name) => `Certificate ${name} expires or fails`,
  },
  errors: {
    choice: 'Too many requests fail',
    everything: 'All traffic of the account',
    title: (name) => (name ? `Requests to ${name} fail` : 'Requests fail'),
  },
  newly_refused: {
    choice: 'Addresses are newly refused',
    everything: 'The whole account',
    title: () => 'Addresses are newly refused',
  },
  webhook_failing: {
    choice: 'A webhook fails',
    everything: 'All webhooks',
    title: (name) => `Webhook ${name} fails`,
  },
  rollout_halted: {
    choice: 'A rollout is halted',
    everything: 'All rollouts of your changes',
    title: (name) => `A rollout in cell ${name} is halted`,
  },
}
export const kindNames = Object.keys(kinds) as Kind[]

const units = [
  [86_400, 'd'],
  [3_600, 'h'],
  [60, 'min'],
] as const

/** 300 as '5 min'. */
export function spanOf(seconds: number): string {
  for (const [size, unit] of units) if (seconds >= size && seconds % size === 0) return `${seconds / size} ${unit}`
  return `${seconds} s`
}

const digits = new Intl.NumberFormat('en', { maximumFractionDigits: 1 })
/** Duration of the alert, in one unit. */
export function lasted(milliseconds: number): string {
  const minutes = Math.round(milliseconds / 60_000)
  if (minutes < 1) return 'less than 1 min'
  if (minutes < 60) return `${minutes} min`
  return minutes < 48 * 60 ? `${digits.format(minutes / 60)} h` : `${digits.format(minutes / 60 / 24)} d`
}

/** The condition of the rule as a sentence, without its resource. */
export const conditionOf = ({ kind, percent }: Pick<AlertRule, 'kind' | 'percent'>): string =>
  kind === 'errors' && percent !== null ? `More than ${digits.format(percent)} % of requests fail` : kinds[kind].choice

/** 'for 1 min' */
export function holdingOf({ for_seconds, window_minutes }: AlertRule): string {
  const within = window_minutes === null ? '' : `within ${window_minutes} min`
  const holding = for_seconds === 0 ? 'at once' : `for ${spanOf(for_seconds)}`
  return [within, holding].filter(Boolean).join(', ')
}

export const nameOfRule = (rule: AlertRule): string => rule.description ?? conditionOf(rule)

export const isSilenced = (rule: Pick<AlertRule, 'silenced_until'> | undefined, now = Date.now()): boolean =>
  rule?.silenced_until != null && Date.parse(rule.silenced_until) > now

const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' })
const dayAndClock = new Intl.DateTimeFormat('en-GB', {
  ...{ day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' },
})
/** '18:00', with the day if it is not today. */
export function momentText(moment: string, now = new Date()): string {
  const date = new Date(moment)
  return (date.toDateString() === now.toDateString() ? clock : dayAndClock).format(date)
}
