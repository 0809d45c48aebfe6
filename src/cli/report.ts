import type { Failure } from './exits.ts'
import { printable, styled } from './output/terminal.ts'

/** Prints a failure to standard error: what went wrong, then what to do. */
export function report({ message, hints }: Failure, where?: string): void {
  const title = styled('red', 'gatehouse:', process.stderr)
  const lines = [
    `${title} ${where ? `${where}: ` : ''}${printable(message)}`,
    ...hints.map((hint) => `  ${printable(hint)}`),
  ]
  process.stderr.write(`${lines.join('\n')}\n`)
}
