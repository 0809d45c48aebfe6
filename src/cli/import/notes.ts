import { textFault } from '../../kernel/text.ts'
import type { Json } from '../state/kinds.ts'

/** Everything in the vendor's account that the state file does not contain. */
export type Notes = { readonly lines: string[]; readonly add: (what: string, why: string) => void }

export function createNotes(): Notes {
  const lines: string[] = []
  return { lines, add: (what, why) => lines.push(`${what}: ${why}`) }
}

/** Includes the vendor's id, by which people find it there. */
export const titleOf = (called: string, { id, description }: Json): string =>
  `${called} ${id}${description ? ` (${description})` : ''}`

const maxBytes = { description: 255, metadata: 4096 }

/** Text fields that every resource has. */
export function annotationsOf(title: string, row: Json, notes: Notes): Json {
  const texts = Object.entries(maxBytes).flatMap(([name, most]): [string, string][] => {
    const text = row[name]
    if (typeof text !== 'string' || text === '') return []
    const fault = textFault(text, most)
    if (fault) notes.add(title, `its ${name} is left out, because here it ${fault}`)
    return fault ? [] : [[name, text]]
  })
  return Object.fromEntries(texts)
}

/** The id in a reference of the vendor's form: `{"id": …, "uri": …}`. */
export const referredId = (value: unknown): string | undefined => {
  const id = (value as { id?: unknown } | null | undefined)?.id
  return typeof id === 'string' ? id : undefined
}

export const textsOf = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter((each) => typeof each === 'string') : []

const common = ['id', 'uri', 'created_at', 'description', 'metadata']

/** Fields with a value that are neither common to all resources nor known. */
export const othersIn = (row: Json, known: readonly string[]): [string, unknown][] =>
  Object.entries(row).filter(([name, value]) => value !== null && !common.includes(name) && !known.includes(name))

/** Covers fields that the vendor adds later: nothing is dropped silently. */
export function noteOthers(title: string, row: Json, known: readonly string[], notes: Notes): void {
  for (const [name] of othersIn(row, known)) notes.add(title, `${name} is left out, because it does not exist here`)
}

/** True for names under the vendor's own domains. */
export const isVendorsName = (host: string): boolean =>
  /(?:^|\.)ngrok(?:-free)?\.(?:app|dev|io|pizza|pro|com)$/.test(host)
