import { styleText } from 'node:util'
import { charactersOf, widthOf } from './width.ts'

/** Messages for people go to standard error, because standard output is for results. */
export const log = (text: string): void => {
  process.stderr.write(`${printable(text)}\n`)
}

/** Text from others must not control the reader's terminal: control and direction characters are shown escaped. */
export const printable = (text: string): string =>
  text.replaceAll(/(?!\n)[\p{Cc}\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu, (character) =>
    character === '\t' ? ' ' : `\\u${(character.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}`,
  )

type Style = Parameters<typeof styleText>[0]
/** No colors if the output is not a terminal or NO_COLOR is set; Node checks both. */
export const styled = (style: Style, text: string, stream: NodeJS.WriteStream = process.stdout): string =>
  styleText(style, text, { stream })

export const canAsk = (): boolean => Boolean(process.stdin.isTTY && process.stderr.isTTY)

/** Loaded on demand, because most commands ask nothing. */
const loadReadline = () => import('node:readline/promises')

export async function confirm(question: string): Promise<boolean> {
  const { createInterface } = await loadReadline()
  const asking = createInterface({ input: process.stdin, output: process.stderr })
  try {
    return /^y(es)?$/i.test((await asking.question(`${question} [y/N] `)).trim())
  } finally {
    asking.close()
  }
}

/** Prompts without echoing the input. */
export async function askSecret(question: string): Promise<string> {
  const { createInterface } = await loadReadline()
  process.stderr.write(question)
  // Discards readline's output, which would echo every character.
  const asking = createInterface({ input: process.stdin, terminal: true })
  try {
    return (await asking.question('')).trim()
  } finally {
    asking.close()
    process.stderr.write('\n')
  }
}

export async function readStandardInput(): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of process.stdin) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString('utf8')
}

/** Cuts between the characters that people see. */
export function cutTo(text: string, columns: number): string {
  if (widthOf(text) <= columns) return text
  let kept = ''
  let width = 0
  for (const character of charactersOf(text)) {
    width += widthOf(character)
    if (width > columns - 1) break
    kept += character
  }
  return `${kept}…`
}
