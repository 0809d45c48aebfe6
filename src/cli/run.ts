import { closest } from '../kernel/closest.ts'
import { exportCommand } from './audit_export.ts'
import { completionCommand, wordsAfter } from './completion.ts'
import { exits, Failure, usageFailure } from './exits.ts'
import { helpOfGroup } from './help.ts'
import { loginCommand, logoutCommand } from './login.ts'
import { findOperation } from './operations.ts'
import { write } from './output.ts'
import { perform } from './perform.ts'
import { profilesCommand } from './profile_commands.ts'
import type { ClientConfig } from './profiles.ts'
import { pruneCommand } from './prune.ts'
import { report } from './report.ts'
import { routesListCommand } from './routes_list.ts'
import { tailCommand } from './tail.ts'

export { clientUsage } from './help.ts'

/** The API client part of `gatehouse`. Resolves to the exit code. */
export async function runClient(
  config: ClientConfig,
  serverCommands: readonly string[],
  args: string[],
): Promise<number> {
  // The reader of our output may stop early: `gatehouse … | head`.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
    process.exit(exits.ok.code)
  })
  try {
    return await dispatch(config, serverCommands, args)
  } catch (error) {
    if (!(error instanceof Failure)) throw error
    report(error)
    return exits[error.exit].code
  }
}

async function dispatch(config: ClientConfig, serverCommands: readonly string[], args: string[]): Promise<number> {
  const [first, ...rest] = args
  if (first === 'profiles') return profilesCommand(config, rest)
  if (first === 'login') return loginCommand(config, rest)
  if (first === 'logout') return logoutCommand(config, rest)
  if (first === 'completion') return completionCommand(config, serverCommands, rest)
  // Loaded on demand: its YAML parser takes longer to load than everything else.
  if (first === 'state') return (await import('./state/commands.ts')).stateCommand(config, rest)
  if (first === 'import') return (await import('./import/commands.ts')).importCommand(rest)
  if (first === 'audit-events' && rest[0] === 'export') return exportCommand(config, rest.slice(1))
  if (first === 'ip-policies' && rest[0] === 'prune') return pruneCommand(config, rest.slice(1))
  if (args.slice(0, 4).join(' ') === 'edges https routes list') return routesListCommand(config, args.slice(4))
  if (first === 'tail') return tailCommand(config, rest)
  const found = findOperation(args)
  if ('operation' in found) return perform(config, found.operation, found.rest)
  const { group, unknown } = found
  if (group.length && (args.includes('--help') || args.includes('-h'))) {
    write(helpOfGroup(group))
    return exits.ok.code
  }
  const meant = unknown && closest(unknown, wordsAfter(serverCommands, group))
  const hints = meant ? [`Did you mean '${['gatehouse', ...group, meant].join(' ')}'?`] : []
  if (group.length === 0)
    throw usageFailure(`unknown command '${unknown}'`, ...hints, "Run 'gatehouse --help' for a list of commands.")
  const what = unknown ? `unknown command '${group.join(' ')} ${unknown}'` : `'${group.join(' ')}' needs a subcommand`
  throw usageFailure(what, ...hints, ...helpOfGroup(group).split('\n'))
}
