import { readFileSync, writeFileSync } from 'node:fs'
import { exits, Failure, usageFailure } from '../exits.ts'
import { parse } from '../flags.ts'
import { write } from '../output/output.ts'
import { log, readStandardInput } from '../output/terminal.ts'
import { kindNames, kinds, type Thing } from '../state/kinds.ts'
import { writeState } from '../state/write.ts'
import { importAccount } from './ngrok_account.ts'
import { readLists } from './ngrok_api.ts'

const vendorsUrl = 'https://api.ngrok.com'

export const importHelp = `Write a state file from an account of the vendor whose API Gatehouse follows.

  gatehouse import ngrok --token-file FILE [--out FILE] [--api-url URL]

  --token-file FILE  has the token of an API key of the vendor; - is standard input
  --out FILE         write to FILE, which must not exist yet, instead of standard output
  --api-url URL      where the vendor's API is (${vendorsUrl})

It only reads, and changes nothing on either side. The state file begins with a list of everything
that it does not contain, which is also printed. Routes and TCP edges that would let in more here
than there have their backend disabled. Read the list, edit the file, then run: gatehouse state
apply FILE`

const options = {
  'token-file': { type: 'string' },
  out: { type: 'string' },
  'api-url': { type: 'string', default: vendorsUrl },
  help: { type: 'boolean', short: 'h' },
} as const

export async function importCommand([from = 'help', ...rest]: string[]): Promise<number> {
  const { values, positionals } = parse(rest, options)
  if (values.help || from === 'help' || from === '--help' || from === '-h') {
    write(importHelp)
    return exits.ok.code
  }
  if (from !== 'ngrok') throw usageFailure(`unknown command 'import ${from}'; expected ngrok`)
  if (positionals.length) throw usageFailure(`unexpected argument '${positionals[0]}'`)
  if (!values['token-file']) throw usageFailure('--token-file is required; it can be - for standard input')
  const url = urlOf(String(values['api-url']))
  const { things, notes } = importAccount(
    await readLists({ url, token: await tokenFrom(String(values['token-file'])) }),
  )
  const text = writeState(things, {
    withIds: false,
    sections: [],
    comment: [
      `Written by 'gatehouse import ngrok' from ${url}.`,
      ...(notes.length ? ['Not imported, or different here:', ...notes.map((note) => `- ${note}`)] : []),
    ],
  })
  if (values.out === undefined) process.stdout.write(text)
  else save(String(values.out), text)
  log(`Imported ${countsOf(things)}.`)
  if (notes.length) log(`Not imported, or different here (${notes.length}):`)
  for (const note of notes) log(`  ${note.replaceAll('\n', '\\n')}`)
  return exits.ok.code
}

/** Protects the key in transit: allows plain HTTP only on this machine. */
function urlOf(text: string): string {
  const url = URL.parse(text)
  const isLocal = url?.protocol === 'http:' && /^(127\.0\.0\.1|\[::1\]|localhost)$/.test(url.hostname)
  if (!url || !(url.protocol === 'https:' || isLocal) || url.search || url.hash || url.username)
    throw usageFailure(`--api-url must be an https URL, such as ${vendorsUrl}`)
  return url.href.replace(/\/+$/, '')
}

async function tokenFrom(file: string): Promise<string> {
  let text: string
  try {
    text = file === '-' ? await readStandardInput() : readFileSync(file, 'utf8')
  } catch (cause) {
    throw new Failure('usage', `${file} cannot be read: ${(cause as Error).message}`, [], { cause })
  }
  const token = text.trim()
  // A header cannot contain anything else, and the error would show the key.
  if (!/^[\x21-\x7e]{1,500}$/.test(token)) throw usageFailure(`${file} must contain one token and nothing else`)
  return token
}

/** Never overwrites a file, which may have been edited. */
function save(file: string, text: string): void {
  try {
    writeFileSync(file, text, { flag: 'wx' })
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException
    const why =
      code === 'EEXIST' ? 'already exists. Move it away, or choose another name' : `cannot be written: ${message}`
    throw new Failure('usage', `${file} ${why}`, [], { cause })
  }
}

function countsOf(things: readonly Thing[]): string {
  const counts = kindNames.flatMap((kind) => {
    const count = things.filter((thing) => thing.kind === kind).length
    return count
      ? [`${count} ${count === 1 ? kinds[kind].called : kind.replaceAll('_', ' ').replace(/^ip /, 'IP ')}`]
      : []
  })
  return counts.join(', ') || 'nothing'
}
