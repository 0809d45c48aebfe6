import { exits, Failure } from './exits.ts'
import { withFlagsLast } from './flags_last.ts'
import { helpOfGroup } from './help.ts'
import type { Operation } from './operation.ts'
import { findOperation, operations } from './operations.ts'
import { write } from './output/output.ts'
import { perform } from './perform.ts'
import type { ClientConfig } from './profiles.ts'
import { report } from './report.ts'

export { withFlagsLast } from './flags_last.ts'
export { clientUsage } from './help.ts'

/** The API client part of `gatehouse`. Resolves to the exit code. */
export async function runClient(
  config: ClientConfig,
  serverCommands: readonly string[],
  args: string[],
): Promise<number> {
  // The reader of the output may stop early: `gatehouse … | head`.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
    process.exit(exits.ok.code)
  })
  try {
    return await dispatch(config, serverCommands, withFlagsLast(args))
  } catch (error) {
    if (!(error instanceof Failure)) throw error
    report(error)
    return exits[error.exit].code
  }
}

/** Loaded on demand, so that no command pays for what it does not use. The YAML parser is the largest module. */
async function dispatch(config: ClientConfig, serverCommands: readonly string[], args: string[]): Promise<number> {
  const [first, ...rest] = args
  if (first === 'profiles') return (await import('./commands/profile_commands.ts')).profilesCommand(config, rest)
  if (first === 'login') return (await import('./commands/login.ts')).loginCommand(config, rest)
  if (first === 'logout') return (await import('./commands/login.ts')).logoutCommand(config, rest)
  if (first === 'completion')
    return (await import('./commands/completion.ts')).completionCommand(config, serverCommands, rest)
  if (first === 'state') return (await import('./state/commands.ts')).stateCommand(config, rest)
  if (first === 'import') return (await import('./import/commands.ts')).importCommand(rest)
  if (first === 'audit-events' && rest[0] === 'export')
    return (await import('./commands/audit_export.ts')).exportCommand(config, rest.slice(1))
  if (first === 'ip-policies' && rest[0] === 'prune')
    return (await import('./commands/prune.ts')).pruneCommand(config, rest.slice(1))
  if (first === 'rollouts' && rest[0] === 'watch')
    return (await import('./commands/rollout_watch.ts')).rolloutWatchCommand(config, rest.slice(1))
  // With an edge, it is an API operation.
  if (args.slice(0, 4).join(' ') === 'edges https routes list' && !args.some((arg) => arg.startsWith('edghts_')))
    return (await import('./commands/routes_list.ts')).routesListCommand(config, args.slice(4))
  if (first === 'api') return (await import('./commands/api_command.ts')).apiCommand(config, rest)
  if (first === 'auth') return (await import('./commands/auth_status.ts')).authCommand(config, rest)
  if (first === 'upgrade') return (await import('./upgrade_check.ts')).upgradeCommand(config, rest)
  if (first === 'tail') return (await import('./commands/tail.ts')).tailCommand(config, rest)
  if (first === 'explain') return (await import('./commands/explain.ts')).explainCommand(config, rest)
  if (first === 'mcp') return (await import('./mcp/command.ts')).mcpCommand(config, rest)
  const more = moreThanGet(args)
  if (more?.verb === 'describe')
    return (await import('./commands/describe.ts')).describeCommand(config, more.get, more.rest)
  if (more?.verb === 'edit') return (await import('./commands/edit.ts')).editCommand(config, more.get, more.rest)
  const found = findOperation(args)
  if ('operation' in found) return perform(config, found.operation, found.rest)
  const { group, unknown } = found
  if (group.length && (args.includes('--help') || args.includes('-h'))) {
    write(helpOfGroup(group))
    return exits.ok.code
  }
  throw (await import('./suggestions.ts')).unknownCommand(serverCommands, group, unknown)
}

/** `describe` and `edit`, for each resource that the API can read. */
function moreThanGet(args: readonly string[]): { verb: string; get: Operation; rest: string[] } | undefined {
  const at = args.findIndex((word) => word === 'describe' || word === 'edit')
  const words = [...args.slice(0, at), 'get'].join(' ')
  const get = at > 0 && operations.find((operation) => operation.words.join(' ') === words)
  return get ? { verb: args[at] ?? '', get, rest: args.slice(at + 1) } : undefined
}
