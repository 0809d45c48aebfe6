import { columnsOf } from './columns.ts'
import { notAmong } from './flags.ts'
import type { Operation } from './operations.ts'
import { describeOne, describeRows } from './table.ts'
import { log } from './terminal.ts'

export const outputs = ['table', 'json', 'yaml', 'ids', 'text'] as const
export type Output = (typeof outputs)[number]

/** What tells the things of an answer apart: edge nodes have a name, and warnings an address. */
export const idFieldOf = ({ fields, listField }: Operation): string | undefined =>
  fields.includes('id') ? 'id' : listField && fields[0]

/** How an operation's answer can be printed. */
export const outputsOf = (operation: Operation): Output[] =>
  outputs.filter((output) => {
    if (operation.streams) return output === 'table' || output === 'json'
    if (output === 'ids') return idFieldOf(operation) !== undefined
    return output !== 'text' || operation.otherResponses.includes('text/plain')
  })

export function readOutput(operation: Operation, text = 'table'): Output {
  const usable = outputsOf(operation)
  const found = usable.find((known) => known === text)
  if (!found) throw notAmong(`--output of ${operation.words.join(' ')}`, text, usable)
  return found
}

type Json = Record<string, unknown>

/** The answer of an operation, on standard output. */
export async function print(output: Output, operation: Operation, text: string, columns?: string): Promise<void> {
  if (output === 'text') return write(text.trimEnd())
  const body = JSON.parse(text) as Json
  const rows = operation.listField ? (body[operation.listField] as Json[]) : undefined
  switch (output) {
    case 'json':
      return write(JSON.stringify(body, null, 2))
    case 'yaml':
      // Loaded when asked for: it takes longer to load than most commands take.
      return write((await import('yaml')).stringify(body, { compat: 'yaml-1.1' }).trimEnd())
    case 'ids':
      return write((rows ?? [body]).map((row) => String(row[idFieldOf(operation) ?? 'id'])).join('\n'))
    case 'table':
      if (!rows) return write(describeOne(body))
      if (rows.length) return write(describeRows(rows, columnsOf(operation.id, operation.fields, columns)))
      return log('No results.')
  }
}

export function write(text: string): void {
  if (text) process.stdout.write(`${text}\n`)
}
