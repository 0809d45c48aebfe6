import { ago } from '../../kernel/ago.ts'
import { columnsOf } from './columns.ts'
import { cutTo, printable, styled } from './terminal.ts'
import { widthOf } from './width.ts'

type Json = Record<string, unknown>

export const isRef = (value: unknown): value is { id: string; uri: string } =>
  value !== null && typeof value === 'object' && Object.keys(value).length === 2 && 'id' in value && 'uri' in value

/** A status. A list has room only for the word; `get` shows the reason too. */
const isStatus = (value: object): value is { state: string } => 'state' in value && 'code' in value && 'reason' in value

export function cell(value: unknown): string {
  if (value === null || value === undefined) return '-'
  if (typeof value === 'string') return printable(value).replaceAll('\n', ' ')
  if (typeof value !== 'object') return String(value)
  if (Array.isArray(value)) {
    if (value.length === 0) return '-'
    // Resources with more than a name would fill the line, so only their number is shown.
    return value.every((each) => typeof each !== 'object' || isRef(each))
      ? value.map(cell).join(',')
      : `${value.length}`
  }
  if (isRef(value)) return value.id
  if (isStatus(value)) return value.state
  const { enabled, ...rest } = value as Json
  const inner = Object.entries(rest).map(([name, each]) =>
    // A list or a reference is self-explanatory; a single value, such as that of a header, is not.
    Object.keys(rest).length === 1 && typeof each === 'object' ? cell(each) : `${name}=${cell(each)}`,
  )
  if (inner.length === 0 && enabled !== undefined) return enabled ? 'enabled' : 'disabled'
  return (enabled === false ? 'disabled: ' : '') + inner.join(' ')
}

/** Aligned, with a head. On a terminal cut to its width, elsewhere complete. */
export function describeRows(rows: readonly Json[], fields: readonly string[], columns = terminalColumns()): string {
  const names = fields.filter(
    // An empty column has no information.
    (name) => ['id', 'description'].includes(name) || rows.some((row) => row[name] !== undefined),
  )
  const heads = names.map((name) => name.toUpperCase().replaceAll('_', ' '))
  // People want the age; scripts want the time.
  const cells = rows.map((row) => names.map((name) => (columns && momentOf(name, row[name])) || cell(row[name])))
  const lines = [heads, ...cells]
  const whole = names.map((_, index) => lines.reduce((most, line) => Math.max(most, widthOf(line[index] ?? '')), 0))
  const [first = 0, ...others] = whole
  if (columns && others.length && first + 2 + Math.min(narrowest, Math.max(...others)) > columns)
    return inBlocks(heads, cells, columns)
  const widths = fit(whole, columns)
  return lines
    .map((line, row) => {
      const text = line
        .map((each, index) => {
          const cut = cutTo(each, widths[index] ?? 0)
          return index === line.length - 1 ? cut : cut + ' '.repeat((widths[index] ?? 0) - widthOf(cut))
        })
        .join('  ')
      const whole = columns ? cutTo(text, columns) : text
      return row === 0 ? styled('bold', whole) : whole
    })
    .join('\n')
}

/** For terminals with no room beside the ids: one line per value, and an empty line between rows. */
function inBlocks(heads: readonly string[], rows: readonly string[][], columns: number): string {
  return rows
    .map((cells) =>
      cells.map((each, index) => (index === 0 ? each : cutTo(`  ${heads[index]}: ${each}`, columns))).join('\n'),
    )
    .join('\n\n')
}

const momentOf = (name: string, value: unknown): string | undefined =>
  name.endsWith('_at') && typeof value === 'string' ? ago(value) : undefined

const narrowest = 10

function fit(widths: number[], columns: number | undefined): number[] {
  const fitted = [...widths]
  const excess = () => fitted.reduce((sum, width) => sum + width + 2, -2) - (columns ?? Number.POSITIVE_INFINITY)
  while (excess() > 0) {
    // Shrinks ids last, because half an id is useless.
    const widest = Math.max(...fitted.slice(1))
    if (widest <= narrowest) break
    const index = fitted.indexOf(widest, 1)
    fitted[index] = Math.max(narrowest, widest - excess())
  }
  return fitted
}

/** One resource: a line per field, and a table for each list in it. */
export function describeOne(body: Json): string {
  const fields = flatten(body)
  const widest = Math.max(...fields.map(([name]) => name.length))
  const lines = fields.map(([name, value]) => `${styled('bold', name.padEnd(widest))}  ${cell(value)}`)
  const lists = Object.entries(body).filter(([, value]) => isListOfThings(value)) as [string, Json[]][]
  const tables = lists.map(([name, rows]) => `\n${styled('bold', name)}\n${describeRows(rows, fieldsOf(rows))}`)
  return [...lines, ...tables].join('\n')
}

const isListOfThings = (value: unknown): boolean =>
  Array.isArray(value) && value.length > 0 && value.every((each) => each && typeof each === 'object' && !isRef(each))

const fieldsOf = (rows: Json[]): readonly string[] =>
  columnsOf('', [...new Set(rows.flatMap((row) => Object.keys(row)))], undefined)

function flatten(body: Json, above = ''): [string, unknown][] {
  return Object.entries(body).flatMap(([name, value]): [string, unknown][] => {
    if (name === 'uri' || isListOfThings(value)) return []
    // Nothing to see once it has been shown.
    if ((name === 'token' || name === 'link') && value === null) return []
    const isGroup = value && typeof value === 'object' && !Array.isArray(value) && !isRef(value)
    return isGroup ? flatten(value as Json, `${above}${name}.`) : [[above + name, value]]
  })
}

const terminalColumns = (): number | undefined => (process.stdout.isTTY ? process.stdout.columns || 80 : undefined)
