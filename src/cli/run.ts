import { completionCommand } from './completion.ts'
import { exits, Failure, usageFailure } from './exits.ts'
import { helpOfGroup } from './help.ts'
import { findOperation } from './operations.ts'
import { write } from './output.ts'
import { perform } from './perform.ts'
import { profilesCommand } from './profile_commands.ts'
import type { ClientConfig } from './profiles.ts'
import { report } from './report.ts'

export { clientUsage } from './help.ts'

/** Whatever of `gatehouse` is a client of the API. Resolves to the exit code. */
export async function runClient(
  config: ClientConfig,
  serverCommands: readonly string[],
  args: string[],
): Promise<number> {
  // Whoever reads our output may stop reading: `gatehouse … | head`.
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
  if (first === 'completion') return completionCommand(config, serverCommands, rest)
  // With its YAML parser it takes longer to load than the rest.
  if (first === 'state') return (await import('./state/commands.ts')).stateCommand(config, rest)
  const found = findOperation(args)
  if ('operation' in found) return perform(config, found.operation, found.rest)
  const { group, unknown } = found
  if (group.length && (args.includes('--help') || args.includes('-h'))) {
    write(helpOfGroup(group))
    return exits.ok.code
  }
  if (group.length === 0) throw usageFailure(`there is no command '${unknown}'`, 'gatehouse --help lists them all.')
  const what = unknown ? `'${group.join(' ')}' has no '${unknown}'` : `'${group.join(' ')}' needs one more word`
  throw usageFailure(what, ...helpOfGroup(group).split('\n'))
}
