import { printable } from './terminal.ts'

type Affected = { readonly total: number; readonly addresses: readonly { readonly ip: string }[] }
type PlaceImpact = {
  readonly type: 'api' | 'dashboard' | 'agent' | 'tcp_edge' | 'route'
  readonly id: string | null
  readonly becomes: 'changed' | 'created' | 'deleted'
  readonly evidence: 'complete' | 'partial' | 'none'
  readonly unknown_because: string | null
  readonly addresses: number
  readonly newly_refused: Affected
  readonly newly_allowed: Affected
  readonly newly_warned: Affected
}
export type ChangeImpact = { readonly places: readonly PlaceImpact[]; readonly more_places: number }
export type FailedAccessTest = {
  readonly id: string
  readonly description?: string
  readonly address: string
  readonly outcome: string
  readonly reason: string
}

const mostNamed = 8
const number = new Intl.NumberFormat('en')

const nouns: Record<PlaceImpact['type'], string> = {
  api: 'the API',
  dashboard: 'the dashboard',
  agent: 'agents',
  tcp_edge: 'TCP edge',
  route: 'route',
}
const fates = { changed: '', created: ' (new)', deleted: ' (deleted)' } as const

function affected({ total, addresses }: Affected, what: string): string[] {
  if (total === 0) return []
  const named = addresses.slice(0, mostNamed).map(({ ip }) => ip)
  const more = named.length > 0 && total > named.length ? [`${number.format(total - named.length)} more`] : []
  const list = named.length > 0 ? `: ${[...named, ...more].join(', ')}` : ''
  return [`    ${number.format(total)} ${total === 1 ? 'address' : 'addresses'} would be ${what}${list}`]
}

function describePlace(place: PlaceImpact): string[] {
  const { type, id, becomes, evidence, unknown_because, addresses } = place
  const changes = [
    ...affected(place.newly_refused, 'refused'),
    ...affected(place.newly_allowed, 'let in'),
    ...affected(place.newly_warned, 'warned of'),
  ]
  const seen = `${number.format(addresses)} ${addresses === 1 ? 'address' : 'addresses'} seen there in the last 7 days`
  const none = addresses === 0 ? 'no address was seen there in the last 7 days' : 'none would be refused or let in'
  return [
    `at ${nouns[type]}${id === null ? '' : ` ${id}`}${fates[becomes]}${addresses === 0 ? '' : `, of ${seen}`}:`,
    ...changes,
    ...(changes.length === 0 && evidence !== 'none' ? [`    ${none}`] : []),
    ...(unknown_because === null
      ? []
      : [`    ${evidence === 'none' ? 'unknown' : 'partly unknown'}: ${unknown_because}`]),
  ]
}

/** The addresses that a change would refuse or allow. Nothing if it does not affect addresses. */
export const describeImpact = ({ places, more_places }: ChangeImpact): string[] => [
  ...places.flatMap(describePlace),
  ...(more_places > 0 ? [`and at ${number.format(more_places)} more edges and routes`] : []),
]

export const describeFailedTest = ({ id, description, address, outcome, reason }: FailedAccessTest): string =>
  `Would fail access test ${id}${description ? ` (${printable(description)})` : ''}: ${address} would be ${outcome}. ${printable(reason)}`
