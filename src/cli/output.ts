import { columnsOf } from './columns.ts'
import { usageFailure } from './exits.ts'
import type { Operation } from './operations.ts'
import { describeOne, describeRows } from './table.ts'
import { log } from './terminal.ts'

export const outputs = ['table', 'json', 'yaml', 'ids', 'text'] as const
export type Output = (typeof outputs)[number]

/** How an operation's answer can be printed. */
export const outputsOf = (operation: Operation): Output[] =>
  outputs.filter((output) => {
    if (operation.streams) return output === 'table' || output === 'json'
    if (output === 'ids') return operation.fields.includes('id')
    return output !== 'text' || operation.otherResponses.includes('text/plain')
  })

export function readOutput(operation: Operation, text = 'table'): Output {
  const usable = outputsOf(operation)
  const found = usable.find((known) => known === text)
  if (!found)
    throw usageFailure(`--output of ${operation.words.join(' ')} must be one of ${usable.join(', ')}, not '${text}'`)
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
      return write((await import('yaml')).stringify(body).trimEnd())
    case 'ids':
      return write((rows ?? [body]).map(({ id }) => String(id)).join('\n'))
    case 'table':
      if (!rows) return write(describeOne(body))
      if (rows.length) return write(describeRows(rows, columnsOf(operation.id, operation.fields, columns)))
      return log('No results.')
  }
}

export function write(text: string): void {
  if (text) process.stdout.write(`${text}\n`)
}
