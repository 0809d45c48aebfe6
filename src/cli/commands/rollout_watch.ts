import { setTimeout } from 'node:timers/promises'
import { call } from '../call.ts'
import { exits, Failure, usageFailure } from '../exits.ts'
import { callFlags, parseOwn } from '../flags.ts'
import { write } from '../output/output.ts'
import { log } from '../output/terminal.ts'
import { connect } from '../perform.ts'
import type { ClientConfig } from '../profiles.ts'

const usage = `Follow a rollout until it has reached all waves or is halted.

Usage
  gatehouse rollouts watch ID [flags]

Flags
  --profile NAME     profile to use instead of the environment or the current profile
  --timeout SECONDS  how long a request may take; default 60
  -h, --help         show this help

Ends with 0 when every wave has it, and with 12 when it is halted.`

const intervalMs = 1_000

type Evidence = { signal: string; sentence: string; node: string | null }
type Rollout = {
  id: string
  cell: string
  state: string
  wave: number | null
  waves: number
  reason: string | null
  watched_until: string | null
  evidence: Evidence[]
}

export async function rolloutWatchCommand(config: ClientConfig, args: string[]): Promise<number> {
  const { values, positionals } = parseOwn({ args, options: callFlags, allowPositionals: true }, usage)
  if (values.help) {
    write(usage)
    return exits.ok.code
  }
  const [id = '', ...more] = positionals
  if (!/^ro_\w+$/.test(id) || more.length)
    throw usageFailure('the id of a rollout is needed (ro_…)', 'See: gatehouse rollouts list')
  const connection = connect(config, values)
  let last: string | undefined
  for (;;) {
    const rollout = await read(() => call(connection, { method: 'GET', path: `/rollouts/${id}` }), last !== undefined)
    if (rollout) {
      const line = lineOf(rollout)
      if (line !== last) write(line)
      last = line
      if (rollout.state === 'released') return exits.ok.code
      if (rollout.state === 'halted') throw halted(rollout)
    }
    await setTimeout(intervalMs)
  }
}

/** Tolerates a service that is briefly unreachable, if it has answered before. */
async function read(get: () => Promise<{ text: string }>, hasWorked: boolean): Promise<Rollout | undefined> {
  try {
    return JSON.parse((await get()).text) as Rollout
  } catch (error) {
    if (!hasWorked || !(error instanceof Failure) || error.exit !== 'unreachable') throw error
    log(error.message)
    return undefined
  }
}

function lineOf({ id, cell, state, wave, waves, watched_until }: Rollout): string {
  const where = wave === null ? 'on no node' : `wave ${wave}, the last is ${waves - 1}`
  const until = watched_until ? `, until ${watched_until}` : ''
  return `${id}  ${cell}  ${state}, ${where}${until}`
}

const halted = ({ id, reason, evidence }: Rollout): Failure =>
  new Failure('halted', `The rollout was halted: ${reason ?? 'no reason was given'}. No node has its changes.`, [
    ...evidence.slice(0, 5).map(({ node, sentence }) => (node ? `${node}: ${sentence}` : sentence)),
    `Undo its changes: gatehouse rollouts revert ${id}`,
    `Or try them again: gatehouse rollouts resume ${id} --reason TEXT`,
  ])
