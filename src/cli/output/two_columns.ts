/** Maximum width of the help, so that it fits a terminal beside another window. */
const widest = 100
export const helpColumns = (): number => Math.min(process.stdout.columns || widest, widest)

/** Two columns. The right one wraps between words at the terminal's width. */
export function twoColumns(rows: readonly (readonly [string, string])[], maxLeft = 36): string {
  const left = Math.min(Math.max(...rows.map(([text]) => text.length)), maxLeft)
  const room = Math.max(30, helpColumns() - left - 4)
  return rows
    .map(([text, right]) => {
      const [first = '', ...more] = brokenLines(right, room)
      const below = (line: string) => `\n  ${' '.repeat(left)}  ${line}`
      const beside = text.length > left ? `  ${text}${below(first)}` : `  ${text.padEnd(left)}  ${first}`
      return beside.trimEnd() + more.map(below).join('')
    })
    .join('\n')
}

export const paragraph = (text: string, margin = ''): string =>
  brokenLines(text, helpColumns() - margin.length)
    .map((line) => margin + line)
    .join('\n')

function brokenLines(text: string, room: number): string[] {
  const lines = ['']
  for (const word of text.split(' ')) {
    const last = lines.at(-1) ?? ''
    if (last && last.length + 1 + word.length > room) lines.push(word)
    else lines[lines.length - 1] = last ? `${last} ${word}` : word
  }
  return lines
}
