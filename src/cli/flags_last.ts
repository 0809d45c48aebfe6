import { commandFlags } from './flags.ts'

/** How each flag of the command itself is typed, and whether a value follows it. */
const takesValue = new Map(
  Object.entries(commandFlags).flatMap(([name, flag]): [string, boolean][] => [
    [`--${name}`, flag.type === 'string'],
    ...('short' in flag ? [[`-${flag.short}`, flag.type === 'string'] as [string, boolean]] : []),
  ]),
)

/**
 * `gatehouse --profile prod api-keys -o json list` as `gatehouse api-keys list --profile prod -o json`: what finds a
 * command looks at the words up to the first flag. It stops at a flag that only some commands have.
 */
export function withFlagsLast(args: readonly string[]): string[] {
  const words: string[] = []
  const flags: string[] = []
  let at = 0
  for (; at < args.length; at++) {
    const arg = args[at] ?? ''
    if (!arg.startsWith('-') || arg === '-') {
      words.push(arg)
      continue
    }
    const value = takesValue.get(arg.split('=')[0] ?? '')
    if (value === undefined) break
    flags.push(arg)
    if (value && !arg.includes('=') && at + 1 < args.length) flags.push(args[++at] ?? '')
  }
  return [...words, ...flags, ...args.slice(at)]
}
