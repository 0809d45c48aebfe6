import { usageFailure } from '../exits.ts'
import { pathOf } from '../fields.ts'
import { cell } from './table.ts'

type Json = Record<string, unknown>

/** The row options `--filter` and `--sort-by`. */
type RowChoice = { readonly filter?: readonly string[] | undefined; readonly sortBy?: string | undefined }

type Condition = { readonly path: readonly string[]; readonly holds: (text: string) => boolean }

const comparisons: Record<string, (value: string, wanted: string) => boolean> = {
  '=': (value, wanted) => value === wanted,
  '!=': (value, wanted) => value !== wanted,
  '~': (value, wanted) => value.toLowerCase().includes(wanted.toLowerCase()),
}

/** `FIELD=VALUE`, `FIELD!=VALUE` or `FIELD~PART`, with dots for nested fields. */
function conditionOf(text: string, fields: readonly string[]): Condition {
  const [, name, operator = '', wanted = ''] = /^([\w.-]+?)(!=|=|~)(.*)$/s.exec(text) ?? []
  const compare = comparisons[operator]
  if (name === undefined || !compare)
    throw usageFailure(`--filter must be FIELD=VALUE, FIELD!=VALUE or FIELD~PART, not '${text}'`)
  return { path: pathOf('--filter', name, fields), holds: (value) => compare(value, wanted) }
}

const valueAt = (row: unknown, path: readonly string[]): unknown =>
  path.reduce((value, step) => (value && typeof value === 'object' ? (value as Json)[step] : undefined), row)

/** The value as a table shows it, so that people can filter for what they see. A missing value is an empty text. */
const textAt = (row: Json, path: readonly string[]): string => {
  const value = valueAt(row, path)
  return value === null || value === undefined ? '' : cell(value)
}

/** Parses both flags, and fails on a field that the rows lack, before anything is sent. */
export function rowChooser({ filter = [], sortBy }: RowChoice, fields: readonly string[]): (rows: Json[]) => Json[] {
  const conditions = filter.map((text) => conditionOf(text, fields))
  const isDescending = sortBy?.startsWith('-') ?? false
  const order = sortBy === undefined ? undefined : pathOf('--sort-by', sortBy.replace(/^-/, ''), fields)
  return (rows) => {
    const chosen = rows.filter((row) => conditions.every(({ path, holds }) => holds(textAt(row, path))))
    if (!order) return chosen
    const sorted = chosen.toSorted((a, b) => compareValues(valueAt(a, order), valueAt(b, order)))
    return isDescending ? sorted.reverse() : sorted
  }
}

/** Compares numbers by value, everything else as text; missing values come first. */
function compareValues(a: unknown, b: unknown): number {
  if (typeof a === 'number' && typeof b === 'number') return a - b
  const [one, other] = [a, b].map((value) => (value === null || value === undefined ? '' : cell(value)))
  return one === other ? 0 : (one ?? '') < (other ?? '') ? -1 : 1
}

/** `{id} {tls.enabled}` with the values of a row. `\\n` and `\\t` are a new line and a tab; `{{` is a brace. */
export function templateOf(template: string, fields: readonly string[]): (row: Json) => string {
  const parts = template
    .replaceAll('\\n', '\n')
    .replaceAll('\\t', '\t')
    .split(/(\{\{|\{[^{}]*\})/)
    .map((part): string | string[] => {
      if (part === '{{') return '{'
      return part.startsWith('{') && part.endsWith('}') ? pathOf('--template', part.slice(1, -1).trim(), fields) : part
    })
  return (row) => parts.map((part) => (typeof part === 'string' ? part : textAt(row, part))).join('')
}
