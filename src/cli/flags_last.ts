import { commandFlags } from './flags.ts'

/** How each of the command's own flags is written, and whether it takes a value. */
const takesValue = new Map(
  Object.entries(commandFlags).flatMap(([name, flag]): [string, boolean][] => [
    [`--${name}`, flag.type === 'string'],
    ...('short' in flag ? [[`-${flag.short}`, flag.type === 'string'] as [string, boolean]] : []),
  ]),
)

/**
 * Rewrites `gatehouse --profile prod api-keys -o json list` to `gatehouse api-keys list --profile prod -o json`, because
 * the look-up of a command considers the words before the first flag. Stops at a flag that only some commands have.
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
