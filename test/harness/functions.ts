export type FunctionFound = { name: string; lines: number }

const named = [
  /^(?<indent> *)(?:export )?(?:async )?function\*? (?<name>\w+)/,
  /^(?<indent> *)(?:export )?const (?<name>\w+)[^=]* = (?:async )?(?:<|\(|\w+ =>)/,
  // Methods, and functions that are properties.
  /^(?<indent> +)(?:async )?\*?(?<name>(?!if|for|while|switch|catch|return)\w+)\(.*\).* \{$/,
  /^(?<indent> +)(?<name>\w+): (?:async )?(?:<|\(|\w+ =>).*(?:=>|\()/,
]

/**
 * The named functions of a source, with their lengths. It relies on the formatter: a function ends before the next line
 * that is indented no further than its first one and does not close anything.
 */
export function functionsIn(source: string): FunctionFound[] {
  const lines = source.split('\n')
  return lines.flatMap((line, start) => {
    const { indent, name } = named.map((pattern) => pattern.exec(line)?.groups).find(Boolean) ?? {}
    if (indent === undefined || name === undefined) return []
    const length = lengthOf(lines.slice(start), indent.length)
    const header = lines.slice(start, start + length).join('\n')
    return /function|=>|\{$/m.test(header) ? [{ name, lines: length }] : []
  })
}

function lengthOf(lines: readonly string[], indent: number): number {
  for (const [index, line] of lines.entries()) {
    if (index === 0 || line === '') continue
    const depth = line.length - line.trimStart().length
    if (depth > indent) continue
    const isClosed = /^ *\}[,)]*$/.test(line)
    if (isClosed) return index + 1
    if (depth < indent || !/^ *[)}\]>]/.test(line))
      return lines.slice(0, index).findLastIndex((text) => text !== '') + 1
  }
  return lines.length
}
