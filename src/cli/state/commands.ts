import { readFileSync, writeFileSync } from 'node:fs'
import { readMinNodes } from '../applied.ts'
import { type Connection, call } from '../call.ts'
import { exits, Failure, usageFailure } from '../exits.ts'
import { callFlags, notAmong, parse } from '../flags.ts'
import { write } from '../output/output.ts'
import { canAsk, confirm, log, readStandardInput } from '../output/terminal.ts'
import { connect } from '../perform.ts'
import type { ClientConfig } from '../profiles.ts'
import { readAccount } from './account.ts'
import { applyTogether, needsApproval } from './change_set.ts'
import { describePlan, summaryOf, titleOf } from './describe.ts'
import { execute, waitForEdges } from './execute.ts'
import { kindNames, type Thing } from './kinds.ts'
import { readPast } from './past.ts'
import { type Plan, planState } from './plan.ts'
import { checkPlan, plainDifferences, readPlan, writePlan } from './plan_file.ts'
import { readState } from './read.ts'
import { agreeToUnusual, tellUnusual, unusualIn } from './unusual.ts'
import { writeState } from './write.ts'

export const stateHelp = `Manage an account as one YAML file: IP policies with their rules, restrictions, backends, reserved
domains, edges, routes and modules.

  gatehouse state dump           write the state of the account
  gatehouse state validate FILE  check a file without a service
  gatehouse state schema         print the JSON Schema of the file, for editors
  gatehouse state diff FILE      show differences; exits with ${exits.different.code} if there are any
  gatehouse state apply FILE     create and change resources; never delete any
  gatehouse state sync FILE      make the account match the file; delete what is not in it

FILE can be - for standard input. With apply and sync, it can be a plan of 'diff --out'.

  --at TIME             with dump: as it was at this time (RFC 3339, or a date), worked out from
                        the audit log; only for admins
  --no-ids              with dump: omit ids, for another account or for reading
  --file FILE           with dump: write to FILE instead of standard output
  -o, --output FORMAT   with diff: text or json
  --out PLAN            with diff: save the differences as a plan, which apply and sync carry out
                        only if the account has not changed
  --dry-run             with apply and sync: show what would be done, but do nothing
  --yes                 with sync: delete without confirmation
  --confirm             with apply and sync: make the change even if it is unusually large
  --allow-self-lockout  continue even if this blocks your own address from the API
  --ignore-access-tests continue even if this breaks access tests; only for admins
  --one-by-one          with apply and sync: make each change by itself, for a file that is too
                        large to be applied as a whole; a run that fails leaves what it has done
  --wait applied        wait until every live edge node has applied the changes, for at most
                        --timeout SECONDS
  --min-nodes N         with --wait applied: how many nodes must be live and have them; default 1
  --profile NAME, --timeout SECONDS, --verbose    global flags

A section that is not in the file is left unchanged; an empty section means that the account
should have none. apply and sync make all changes or none. A second run changes nothing.`

const options = {
  at: { type: 'string' },
  file: { type: 'string' },
  'no-ids': { type: 'boolean' },
  output: { type: 'string', short: 'o' },
  out: { type: 'string' },
  'dry-run': { type: 'boolean' },
  yes: { type: 'boolean', short: 'y' },
  confirm: { type: 'boolean' },
  'allow-self-lockout': { type: 'boolean' },
  'ignore-access-tests': { type: 'boolean' },
  'one-by-one': { type: 'boolean' },
  wait: { type: 'string' },
  'min-nodes': { type: 'string' },
  ...callFlags,
} as const

const verbs = ['dump', 'validate', 'schema', 'diff', 'apply', 'sync']
type Values = ReturnType<typeof parse>['values']

export async function stateCommand(config: ClientConfig, [verb = 'help', ...rest]: string[]): Promise<number> {
  const { values, positionals } = parse(rest, options)
  if (values.help || verb === 'help' || verb === '--help' || verb === '-h') {
    write(stateHelp)
    return exits.ok.code
  }
  if (!verbs.includes(verb)) throw notAmong('the command after state', verb, verbs)
  if (values.wait !== undefined && values.wait !== 'applied') throw usageFailure("--wait must be 'applied'")
  const toService = () => connect(config, values as { profile?: string; timeout?: string; verbose?: boolean })
  if (verb === 'dump' || verb === 'schema') {
    if (positionals.length) throw usageFailure(`state ${verb} takes no arguments; it writes to standard output`)
    return verb === 'dump' ? dump(toService(), values) : printSchema()
  }
  const [path, ...more] = positionals
  if (!path || more.length) throw usageFailure(`state ${verb} needs exactly one file, or - for standard input`)
  const text = path === '-' ? await readStandardInput() : readFile(path)
  if (verb === 'validate') {
    readState(readPlan(text)?.state ?? text)
    log('The file is valid.')
    return exits.ok.code
  }
  return verb === 'diff' ? diff(toService, text, values) : change(toService, { verb, path, text }, values)
}

async function dump(connection: Connection, values: Values): Promise<number> {
  const { at } = values
  const things = typeof at === 'string' ? await readPast(connection, at) : await readAccount(connection)
  const text = writeState(things, {
    withIds: !values['no-ids'],
    sections: kindNames,
    comment: [
      `Written by 'gatehouse state dump${at ? ` --at ${at}` : ''}'. A removed section is left unchanged; an empty section means that there should be none.`,
    ],
  })
  if (values.file) writeFileSync(String(values.file), text)
  else process.stdout.write(text)
  return exits.ok.code
}

async function printSchema(): Promise<number> {
  write(JSON.stringify((await import('./schema.ts')).stateSchema(), null, 2))
  return exits.ok.code
}

async function diff(toService: () => Connection, text: string, { output = 'text', out }: Values): Promise<number> {
  if (output !== 'text' && output !== 'json') throw notAmong('--output of state diff', String(output), ['text', 'json'])
  const file = readState(text)
  const connection = toService()
  const account = await readAccount(connection)
  // Both plans have the same differences.
  const plan = planState(file, account, { deletes: false })
  if (typeof out === 'string') {
    writeFileSync(out, writePlan(plan, await accountIdOf(connection), text))
    log(`Saved to ${out}. Carry it out with: gatehouse state apply ${out}`)
  }
  if (output === 'json') write(JSON.stringify({ differences: plainDifferences(plan) }, null, 2))
  else if (plan.differences.length === 0) log('No differences.')
  else tell(plan, account)
  return plan.differences.length ? exits.different.code : exits.ok.code
}

const tell = (plan: Plan, account: readonly Thing[]) => write(`${describePlan(plan, account)}\n\n${summaryOf(plan)}`)

type Given = { readonly verb: string; readonly path: string; readonly text: string }

async function change(toService: () => Connection, { verb, path, text }: Given, values: Values): Promise<number> {
  const minNodes = readMinNodes(values['min-nodes'] as string | undefined, values.wait === 'applied')
  const saved = readPlan(text)
  const file = readState(saved?.state ?? text)
  const connection = toService()
  // Includes resources outside the file: the users of a policy decide when it may change.
  const account = await readAccount(connection)
  const isWhole = !values['one-by-one']
  const plan = planState(file, account, { deletes: verb === 'sync', isWhole })
  if (saved) checkPlan(saved, plan, await accountIdOf(connection))
  if (plan.steps.length === 0) {
    log('Nothing to do.')
    return exits.ok.code
  }
  tell(plan, account)
  const unusual = await unusualIn(connection, plan, account)
  tellUnusual(unusual)
  if (values['dry-run']) {
    const flag = unusual.length > 0 ? ', and --confirm' : ''
    log(`Dry run: nothing was changed. Applying this takes ${count(plan)}${flag}.`)
    return exits.ok.code
  }
  if (verb === 'sync') await agree(plan, path, Boolean(values.yes))
  const isConfirmed = Boolean(values.confirm)
  await agreeToUnusual(unusual, { isConfirmed, canRead: path !== '-' })
  const makeAll = isWhole ? applyTogether : oneByOne
  const generation = await makeAll(connection, plan.steps, {
    allowSelfLockout: Boolean(values['allow-self-lockout']),
    ignoreAccessTests: Boolean(values['ignore-access-tests']),
    isConfirmed: isConfirmed || unusual.length > 0,
  })
  if (values.wait && generation) await waitForEdges(connection, generation, minNodes)
  log(`Done, with ${count(plan)}.`)
  return exits.ok.code
}

async function accountIdOf(connection: Connection): Promise<string> {
  const { text } = await call(connection, { method: 'GET', path: '/caller' })
  return (JSON.parse(text) as { account_id: string }).account_id
}

/** A change that needs approval would stop the run half-way. */
const oneByOne: typeof applyTogether = async (connection, steps, allowed) => {
  if (await needsApproval(connection))
    throw new Failure(
      'refused',
      'changes of this account need approval, and cannot be made one by one; nothing was changed',
      ['Leave --one-by-one out. If the file is too large for that, apply a part of it first, such as one section.'],
    )
  return execute(connection, steps, allowed)
}

const count = ({ steps: { length } }: Plan) => `${length} change${length === 1 ? '' : 's'}`

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
