import { exits, usageFailure } from '../exits.ts'
import { parseOwn } from '../flags.ts'
import { write } from '../output/output.ts'
import { connect } from '../perform.ts'
import type { ClientConfig } from '../profiles.ts'
import { follow } from './follow.ts'

const usage = `Show requests to the account's edges as they happen.

Usage
  gatehouse tail [flags]

Flags
  --edge ID          only requests to this edge
  --refused          only refused requests; the same as --outcome refused
  --outcome OUTCOME  only allowed, refused, warned, limited or failed requests
  --address ADDRESS  only requests from this address or CIDR range
  --json             one JSON object per line
  --profile NAME     profile to use instead of the environment or the current profile
  -h, --help         show this help

Ctrl-C ends it. Allowed requests are not kept: 'gatehouse requests list' shows the others later.`

const options = {
  edge: { type: 'string' },
  refused: { type: 'boolean' },
  outcome: { type: 'string' },
  address: { type: 'string' },
  json: { type: 'boolean' },
  profile: { type: 'string' },
  verbose: { type: 'boolean', short: 'v' },
  help: { type: 'boolean', short: 'h' },
} as const

/** `gatehouse requests stream` under the name that people try first. */
export async function tailCommand(config: ClientConfig, args: string[]): Promise<number> {
  const { edge, refused, outcome, address, json, help, ...global } = parseOwn({ args, options }, usage).values
  if (help) {
    write(usage)
    return exits.ok.code
  }
  if (refused && outcome !== undefined) throw usageFailure('--refused and --outcome cannot be combined')
  const wanted = { edge_id: edge, outcome: refused ? 'refused' : outcome, source_ip: address }
  const query = Object.fromEntries(Object.entries(wanted).filter(([, value]) => value !== undefined))
  return follow(connect(config, global), { method: 'GET', path: '/requests/stream', query }, json ?? false)
}
