import { readFileSync, writeFileSync } from 'node:fs'
import { exits, Failure, usageFailure } from '../exits.ts'
import { parse } from '../flags.ts'
import { write } from '../output.ts'
import { connect } from '../perform.ts'
import type { ClientConfig } from '../profiles.ts'
import { canAsk, confirm, log, readStandardInput } from '../terminal.ts'
import { readAccount } from './account.ts'
import { describePlan, summaryOf, titleOf } from './describe.ts'
import { execute, waitForEdges } from './execute.ts'
import { readState, writeState } from './file.ts'
import { type Plan, planState } from './plan.ts'

export const stateHelp = `IP policies with their rules, restrictions, backends, edges, routes and modules, as one file in YAML.

  gatehouse state dump [--no-ids] [--file FILE]   writes what the account has
  gatehouse state diff FILE                       what differs; ends with ${exits.different.code} when something does
  gatehouse state apply FILE                      creates and changes what differs; never deletes
  gatehouse state sync FILE                       makes the account what the file says; deletes what is not in it

FILE may be - for standard input.

  --dry-run             with apply and sync: say what would be done, and do nothing
  --yes                 with sync: delete without asking
  --allow-self-lockout  go on even if the API then refuses the address that this comes from
  --wait applied        end when every live edge node has applied it; --timeout SECONDS says how long that may take
  --no-ids              with dump: for another account, or for reading
  --file FILE           with dump: where to write
  --profile NAME, --timeout SECONDS, --verbose    as with every command

A section that is not in the file is left alone; an empty one means that there is to be nothing. A second run changes
nothing, and one that was cut off is finished by running it again.`

const options = {
  file: { type: 'string' },
  'no-ids': { type: 'boolean' },
  'dry-run': { type: 'boolean' },
  yes: { type: 'boolean', short: 'y' },
  'allow-self-lockout': { type: 'boolean' },
  wait: { type: 'string' },
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
    throw usageFailure(`state knows dump, diff, apply and sync, not '${verb}'`)
  if (values.wait !== undefined && values.wait !== 'applied') throw usageFailure("--wait can only be 'applied'")
  const connection = connect(config, values as { profile?: string; timeout?: string; verbose?: boolean })
  if (verb === 'dump') {
    if (positionals.length) throw usageFailure('state dump writes to standard output, or to --file FILE')
    const account = await readAccount(connection)
    const names = new Map(account.map(({ id, name }) => [id ?? '', name]))
    const text = writeState(account, names, !values['no-ids'])
    if (values.file) writeFileSync(String(values.file), text)
    else process.stdout.write(text)
    return exits.ok.code
  }
  const [path, ...more] = positionals
  if (!path || more.length) throw usageFailure(`state ${verb} needs one file, or - for standard input`)
  const file = readState(path === '-' ? await readStandardInput() : readFile(path))
  // All of it, also what the file does not hold: who uses a policy decides when it may be changed.
  const account = await readAccount(connection)
  const plan = planState(file, account, { deletes: verb === 'sync' })
  if (verb === 'diff') {
    if (plan.differences.length === 0) log('There is no difference.')
    else write(`${describePlan(plan, account)}\n\n${summaryOf(plan)}`)
    return plan.differences.length ? exits.different.code : exits.ok.code
  }
  if (plan.steps.length === 0) {
    log('There is nothing to do.')
    return exits.ok.code
  }
  write(`${describePlan(plan, account)}\n\n${summaryOf(plan)}`)
  if (values['dry-run']) {
    log(`Nothing was done. It would take ${count(plan)}.`)
    return exits.ok.code
  }
  if (verb === 'sync') await agree(plan, path, Boolean(values.yes))
  const generation = await execute(connection, plan.steps, { allowSelfLockout: Boolean(values['allow-self-lockout']) })
  if (values.wait && generation) await waitForEdges(connection, generation)
  log(`done, with ${count(plan)}`)
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

/** Nothing is deleted that was not named before. */
async function agree({ surplus }: Plan, path: string, isAgreed: boolean): Promise<void> {
  if (surplus.length === 0) return
  log(`\nThis deletes ${surplus.length}:`)
  for (const thing of surplus) log(`  ${titleOf(thing)}`)
  if (isAgreed) return
  if (!canAsk() || path === '-')
    throw usageFailure(
      'sync would delete something, and there is nobody to ask',
      '--yes deletes without asking, --dry-run only shows it.',
    )
  if (!(await confirm('Delete them?'))) throw new Failure('usage', 'nothing was done')
}
