import { textFault } from '../../kernel/text.ts'
import type { Json } from '../state/kinds.ts'

/** Everything that the state file does not say although the vendor's account does. */
export type Notes = { readonly lines: string[]; readonly add: (what: string, why: string) => void }

export function createNotes(): Notes {
  const lines: string[] = []
  return { lines, add: (what, why) => lines.push(`${what}: ${why}`) }
}

/** With the vendor's id, under which people find it there. */
export const titleOf = (called: string, { id, description }: Json): string =>
  `${called} ${id}${description ? ` (${description})` : ''}`

const maxBytes = { description: 255, metadata: 4096 }

/** The texts that every resource has. */
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

/** The id in a reference, in the vendor's form: `{"id": …, "uri": …}`. */
export const referredId = (value: unknown): string | undefined => {
  const id = (value as { id?: unknown } | null | undefined)?.id
  return typeof id === 'string' ? id : undefined
}

export const textsOf = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter((each) => typeof each === 'string') : []

const common = ['id', 'uri', 'created_at', 'description', 'metadata']

/** Fields with a value that are neither common to all resources nor among the known ones. */
export const othersIn = (row: Json, known: readonly string[]): [string, unknown][] =>
  Object.entries(row).filter(([name, value]) => value !== null && !common.includes(name) && !known.includes(name))

/** For fields that the vendor has added since: nothing is dropped in silence. */
export function noteOthers(title: string, row: Json, known: readonly string[], notes: Notes): void {
  for (const [name] of othersIn(row, known)) notes.add(title, `${name} is left out, because it does not exist here`)
}

/** Under domains that belong to the vendor. */
export const isVendorsName = (host: string): boolean =>
  /(?:^|\.)ngrok(?:-free)?\.(?:app|dev|io|pizza|pro|com)$/.test(host)
