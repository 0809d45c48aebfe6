import { readFileSync, writeFileSync } from 'node:fs'
import { readMinNodes } from '../applied.ts'
import { exits, Failure, usageFailure } from '../exits.ts'
import { parse } from '../flags.ts'
import { write } from '../output.ts'
import { connect } from '../perform.ts'
import type { ClientConfig } from '../profiles.ts'
import { canAsk, confirm, log, readStandardInput } from '../terminal.ts'
import { readAccount } from './account.ts'
import { describePlan, summaryOf, titleOf } from './describe.ts'
import { execute, waitForEdges } from './execute.ts'
import { kindNames } from './kinds.ts'
import { type Plan, planState } from './plan.ts'
import { readState } from './read.ts'
import { writeState } from './write.ts'

export const stateHelp = `Manage IP policies with their rules, restrictions, backends, edges, routes and modules as one YAML
file.

  gatehouse state dump [--no-ids] [--file FILE]   write the state of the account
  gatehouse state diff FILE                       show differences; exits with ${exits.different.code} if there are any
  gatehouse state apply FILE                      create and change resources; never delete any
  gatehouse state sync FILE                       make the account match the file; delete what is not in it

FILE can be - for standard input.

  --dry-run             with apply and sync: show what would be done, but do nothing
  --yes                 with sync: delete without confirmation
  --allow-self-lockout  continue even if this blocks your own address from the API
  --wait applied        wait until every live edge node has applied the changes, for at most --timeout SECONDS
  --min-nodes N         with --wait applied: how many edge nodes must be live and have them (default 1)
  --no-ids              with dump: omit ids, for another account or for reading
  --file FILE           with dump: write to FILE instead of standard output
  --profile NAME, --timeout SECONDS, --verbose    global flags

A section that is not in the file is left unchanged; an empty section means that the account
should have none. A second run changes nothing. If a run is interrupted, run it again to finish.`

const options = {
  file: { type: 'string' },
  'no-ids': { type: 'boolean' },
  'dry-run': { type: 'boolean' },
  yes: { type: 'boolean', short: 'y' },
  'allow-self-lockout': { type: 'boolean' },
  wait: { type: 'string' },
  'min-nodes': { type: 'string' },
  profile: { type: 'string' },
  timeout: { type: 'string' },
  verbose: { type: 'boolean', short: 'v' },
  help: { type: 'boolean', short: 'h' },
} as const

export async function stateCommand(config: ClientConfig, [verb = 'help', ...rest]: string[]): Promise<number> {
  const { values, positionals } = parse(rest, options)
  if (values.help || verb === 'help' || verb === '--help' || verb === '-h') {
    write(stateHelp)
    return exits.ok.code
  }
  if (!['dump', 'diff', 'apply', 'sync'].includes(verb))
    throw usageFailure(`unknown command 'state ${verb}'; expected dump, diff, apply or sync`)
  if (values.wait !== undefined && values.wait !== 'applied') throw usageFailure("--wait must be 'applied'")
  const minNodes = readMinNodes(values['min-nodes'] as string | undefined, values.wait === 'applied')
  const toService = () => connect(config, values as { profile?: string; timeout?: string; verbose?: boolean })
  if (verb === 'dump') {
    if (positionals.length)
      throw usageFailure('state dump takes no arguments; it writes to standard output, or to --file FILE')
    const account = await readAccount(toService())
    const text = writeState(account, {
      withIds: !values['no-ids'],
      sections: kindNames,
      comment: [
        "Written by 'gatehouse state dump'. A removed section is left unchanged; an empty section means that there should be none.",
      ],
    })
    if (values.file) writeFileSync(String(values.file), text)
    else process.stdout.write(text)
    return exits.ok.code
  }
  const [path, ...more] = positionals
  if (!path || more.length) throw usageFailure(`state ${verb} needs exactly one file, or - for standard input`)
  const file = readState(path === '-' ? await readStandardInput() : readFile(path))
  const connection = toService()
  // Including what the file does not contain: what uses a policy decides when it may be changed.
  const account = await readAccount(connection)
  const plan = planState(file, account, { deletes: verb === 'sync' })
  if (verb === 'diff') {
    if (plan.differences.length === 0) log('No differences.')
    else write(`${describePlan(plan, account)}\n\n${summaryOf(plan)}`)
    return plan.differences.length ? exits.different.code : exits.ok.code
  }
  if (plan.steps.length === 0) {
    log('Nothing to do.')
    return exits.ok.code
  }
  write(`${describePlan(plan, account)}\n\n${summaryOf(plan)}`)
  if (values['dry-run']) {
    log(`Dry run: nothing was changed. Applying this takes ${count(plan)}.`)
    return exits.ok.code
  }
  if (verb === 'sync') await agree(plan, path, Boolean(values.yes))
  const generation = await execute(connection, plan.steps, { allowSelfLockout: Boolean(values['allow-self-lockout']) })
  if (values.wait && generation) await waitForEdges(connection, generation, minNodes)
  log(`Done, with ${count(plan)}.`)
  return exits.ok.code
}

const count = ({ steps: { length } }: Plan) => `${length} request${length === 1 ? '' : 's'}`

function readFile(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (cause) {
    throw new Failure('usage', `${path} cannot be read: ${(cause as Error).message}`, [], { cause })
  }
}

/** Lists everything that will be deleted before deleting it. */
async function agree({ surplus }: Plan, path: string, isAgreed: boolean): Promise<void> {
  if (surplus.length === 0) return
  log(`\nThis deletes ${surplus.length} resource${surplus.length === 1 ? '' : 's'}:`)
  for (const thing of surplus) log(`  ${titleOf(thing)}`)
  if (isAgreed) return
  if (!canAsk() || path === '-')
    throw usageFailure(
      'sync would delete resources, and cannot ask for confirmation here',
      'Use --yes to delete without confirmation, or --dry-run to see what would be deleted.',
    )
  if (!(await confirm('Delete them?'))) throw new Failure('usage', 'canceled; nothing was changed')
}
