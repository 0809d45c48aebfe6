import { usageFailure } from '../exits.ts'
import { notAmong, type Typed } from '../flags.ts'
import type { Operation } from '../operation.ts'
import { columnsOf } from './columns.ts'
import { describeOne, describeRows } from './table.ts'

export const outputs = ['table', 'json', 'yaml', 'ids', 'text'] as const
export type Output = (typeof outputs)[number]

/** Fields that identify the rows: edge nodes have a name, and warnings an address. */
export const idFieldOf = ({ fields, listField }: Operation): string | undefined =>
  fields.includes('id') ? 'id' : listField && fields[0]

export const outputsOf = (operation: Operation): Output[] =>
  outputs.filter((output) => {
    if (operation.streams) return output === 'table' || output === 'json'
    if (output === 'ids') return idFieldOf(operation) !== undefined
    return output !== 'text' || operation.otherResponses.includes('text/plain')
  })

function readOutput(operation: Operation, text = 'table'): Output {
  const usable = outputsOf(operation)
  const found = usable.find((known) => known === text)
  if (!found) throw notAmong(`--output of ${operation.words.join(' ')}`, text, usable)
  return found
}

type Json = Record<string, unknown>

/** Output options, parsed and checked before anything is sent. */
export type View = {
  readonly output: Output
  readonly columns?: string | undefined
  /** Filter and order of a list. */
  readonly choose?: ((rows: Json[]) => Json[]) | undefined
  /** A template for each row, instead of an output format. */
  readonly template?: ((row: Json) => string) | undefined
}

export async function readView(operation: Operation, command: Typed['command']): Promise<View> {
  const { filter, 'sort-by': sortBy, template, columns } = command
  const output = readOutput(operation, command.output)
  if (columns) columnsOf(operation.id, operation.fields, columns)
  if (!filter && sortBy === undefined && template === undefined) return { output, columns }
  if (template !== undefined && command.output) throw usageFailure('--template and --output cannot be combined')
  const { rowChooser, templateOf } = await import('./rows.ts')
  return {
    output,
    columns,
    choose: rowChooser({ filter, sortBy }, operation.fields),
    template: template === undefined ? undefined : templateOf(template, operation.fields),
  }
}

/** An operation's response as text for standard output. */
export async function render(view: View, operation: Operation, text: string): Promise<string> {
  const { output, columns, template, choose = (rows) => rows } = view
  if (output === 'text') return text.trimEnd()
  const { listField } = operation
  const answer = JSON.parse(text) as Json
  const rows = listField ? choose(answer[listField] as Json[]) : undefined
  const body = listField ? { ...answer, [listField]: rows } : answer
  if (template) return (rows ?? [body]).map(template).join('\n')
  switch (output) {
    case 'json':
      return JSON.stringify(body, null, 2)
    case 'yaml':
      // Loaded on demand: loading takes longer than most commands.
      return (await import('yaml')).stringify(body, { compat: 'yaml-1.1' }).trimEnd()
    case 'ids':
      return (rows ?? [body]).map((row) => String((row as Json)[idFieldOf(operation) ?? 'id'])).join('\n')
    case 'table':
      if (!rows) return describeOne(body)
      return rows.length ? describeRows(rows, columnsOf(operation.id, operation.fields, columns)) : ''
  }
}

export function write(text: string): void {
  if (text) process.stdout.write(`${text}\n`)
}
