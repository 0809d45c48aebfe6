import type { Shapes } from '../../api/client.ts'
import { modules, nouns } from '../audit/describe.ts'
import type { Names } from '../traffic/names.ts'

type Planned = Shapes['ChangeSet']['changes'][number]
export type Difference = Shapes['ChangeSetPreview']['differences'][number]
/** A change, with names of its resource and the parent where known. */
type Deed = { operation: string; own?: string | undefined; within?: string | undefined }

const verbs: Record<string, string> = {
  create: 'create',
  update: 'change',
  delete: 'delete',
  replace: 'set',
  replace_rules: 'replace the rules of',
  remove_rules: 'remove rules of',
}
const mostNamed = 3

const articleOf = (noun: string): string => (/^(a|e|i|o|HTTP|IP)/.test(noun) ? 'an' : 'a')
const pluralOf = (noun: string): string => (/[^aeiou]y$/.test(noun) ? `${noun.slice(0, -1)}ies` : `${noun}s`)

/** 'change rule 192.0.2.0/24 of Offices', 'set the rate limit of 2 routes of Shop'. */
function phraseOf({ operation, own, within }: Deed, number: number): string {
  const [resource = '', ...rest] = operation.split('.')
  const last = rest.at(-1) ?? ''
  const module = rest.length > 1 ? (rest[0] ?? '') : undefined
  const verb = module !== undefined && last === 'delete' ? 'remove' : (verbs[last] ?? last.replaceAll('_', ' '))
  const noun = nouns[resource] ?? resource.replaceAll('_', ' ')
  const one = own === undefined ? `${articleOf(noun)} ${noun}` : `${noun} ${own}`
  const thing = number > 1 ? `${number} ${pluralOf(noun)}` : one
  const part = module === undefined ? '' : `the ${modules[module] ?? module.replaceAll('_', ' ')} of `
  return `${verb} ${part}${thing}${within === undefined ? '' : ` of ${within}`}`
}

const capitalized = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1)

/** All changes in one line; equal ones in the same place are counted. */
function titleOf(deeds: readonly Deed[]): string {
  const kinds = Map.groupBy(deeds, ({ operation, within }) => `${operation} ${within}`)
  const phrases = [...kinds.values()].map((same) => phraseOf(same[0] as Deed, same.length))
  const more = phrases.length - mostNamed
  return capitalized(phrases.slice(0, mostNamed).join(', ') + (more > 0 ? `, and ${more} more` : ''))
}

/** Without names: the list contains only operations. */
export const titleOfOperations = (operations: readonly string[]): string =>
  titleOf(operations.map((operation) => ({ operation })))

const reference = /^\{\{changes\[(\d+)\]\.id\}\}$/

/** The preview's differences supply names of existing resources, such as a rule's range and its policy. */
function deedOf(
  { operation, parameters = {}, body = {} }: Planned,
  differences: readonly Difference[],
  names: Names,
): Deed {
  const { id, edge_id } = parameters
  const found = differences.find(({ resource }) => resource === id)
  const { cidr, match, hostports, address, name, description, ip_policy, ip_policy_id }: Record<string, unknown> =
    id === undefined ? body : { ...found?.before, ...found?.after }
  const nameOf = (value: unknown): string | undefined => {
    if (typeof value !== 'string' || value === '') return undefined
    const [, index] = reference.exec(value) ?? []
    if (index) return `what change ${Number(index) + 1} creates`
    const known = names.route(value) ?? names.edge(value)
    return known === id ? undefined : known
  }
  const first = Array.isArray(hostports) ? hostports[0] : undefined
  const own = [id, cidr, match, first, address, name, description].map(nameOf).find((each) => each !== undefined)
  const policy = operation.startsWith('ip_policy_rules.')
    ? (ip_policy_id ?? (ip_policy as { id?: string } | undefined)?.id)
    : undefined
  return { operation, own, within: nameOf(edge_id ?? policy) }
}

/** A description of each change, and of all in one line. */
export function changesInWords(
  changes: readonly Planned[],
  differences: readonly Difference[],
  names: Names,
): { title: string; each: string[] } {
  const deeds = changes.map((change) => deedOf(change, differences, names))
  return { title: titleOf(deeds), each: deeds.map((deed) => capitalized(phraseOf(deed, 1))) }
}
