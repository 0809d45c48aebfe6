import { setTimeout } from 'node:timers/promises'
import { exits, Failure, usageFailure } from '../exits.ts'
import { parseOwn } from '../flags.ts'
import { write } from '../output/output.ts'
import { styled } from '../output/terminal.ts'
import type { ClientConfig } from '../profiles.ts'
import { report } from '../report.ts'
import { examine, type LocalParts } from './status_parts.ts'
import type { Part, Standing } from './status_resources.ts'

export const statusUsage = `Show the API, the publisher, edge nodes, the edges, backends, domains, certificates and webhooks of the account, the newest
backup and the edge node of this machine.

Usage
  gatehouse status [flags]

Flags
  -w, --watch         show it again every two seconds until Ctrl-C
  -o, --output FORMAT text (default) or json
      --profile NAME  profile to use instead of the environment or the current profile
  -h, --help          show this help

It exits with ${exits.unhealthy.code} if something is degraded, down or unknown, and with 0 otherwise, even with warnings. A backend without\na health check is unknown on purpose, and does not count.`

const options = {
  watch: { type: 'boolean', short: 'w' },
  output: { type: 'string', short: 'o', default: 'text' },
  profile: { type: 'string' },
  help: { type: 'boolean', short: 'h' },
} as const

const everyMs = 2_000

export async function statusCommand(config: ClientConfig, local: LocalParts, args: string[]): Promise<number> {
  try {
    const { watch, output, profile, help } = parseOwn({ args, options }, statusUsage).values
    if (help) {
      write(statusUsage)
      return exits.ok.code
    }
    if (output !== 'text' && output !== 'json')
      throw usageFailure(`--output must be one of text, json, not '${output}'`)
    const look = () => examine(config, local, profile)
    if (!watch) return show(await look(), output)
    return await showAgain(look, output)
  } catch (error) {
    if (!(error instanceof Failure)) throw error
    report(error)
    return exits[error.exit].code
  }
}

/** Repeats until Ctrl-C; the exit code is that of the last look. */
async function showAgain(look: () => Promise<Part[]>, output: 'text' | 'json'): Promise<number> {
  const ending = new AbortController()
  process.once('SIGINT', () => ending.abort())
  process.once('SIGTERM', () => ending.abort())
  let code: number = exits.ok.code
  while (!ending.signal.aborted) {
    const parts = await look()
    // Moves to the top and clears the rest afterwards: clearing first would flicker.
    if (output === 'text' && process.stdout.isTTY) process.stdout.write('\x1b[H\x1b[J')
    code = show(parts, output)
    await setTimeout(everyMs, undefined, { signal: ending.signal }).catch(() => {})
  }
  return code
}

function show(parts: readonly Part[], output: 'text' | 'json'): number {
  const isWrong = parts.some(({ status, isExpected }) => !isExpected && !['up', 'warning'].includes(status))
  if (output === 'json') write(JSON.stringify({ status: isWrong ? 'wrong' : 'ok', parts }))
  else write(asText(parts))
  return isWrong ? exits.unhealthy.code : exits.ok.code
}

const colors = { up: 'green', warning: 'yellow', degraded: 'yellow', down: 'red', unknown: 'magenta' } as const

function asText(parts: readonly Part[]): string {
  const titleOf = ({ part, name }: Part) => (name === undefined ? part : `  ${name}`)
  const width = Math.max(...parts.map((part) => titleOf(part).length))
  const standing = (status: Standing) => styled(colors[status], status.padEnd(8))
  return parts.map((part) => `${titleOf(part).padEnd(width)}  ${standing(part.status)}  ${part.message}`).join('\n')
}
