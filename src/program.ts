import { setDefaultAutoSelectFamilyAttemptTimeout } from 'node:net'
import { parseArgs } from 'node:util'
import { clientSettings } from './config/client.ts'
import {
  joinedEnvironment,
  readClientConfig,
  readConfig,
  readEdgeConfig,
  readEdgeFolder,
  readEdgeStatusConfig,
  readEnvironmentFile,
  readLocalParts,
} from './config/config.ts'
import { version } from './config/version.ts'
import { isUnavailable, setupFault } from './db/failures.ts'
import { ConfigError } from './kernel/config_error.ts'
import { UnreadableSecret } from './kernel/crypto/unreadable_secret.ts'
import { helpOfServerCommand, serverCommands, serverUsage, settingsHelp } from './server_commands.ts'

// Lazy imports: the client must not load the database driver and the web server, nor the server the client.
const loadClient = () => import('./cli/run.ts')
const loadEnvironment = () => import('./setup/environment.ts')
const loadConfigs = () => import('./setup/configs.ts')
const ownerConfig = async () => (await loadConfigs()).ownerConfigHere()
const serveConfig = async () => (await loadConfigs()).serveConfigHere()
const usage = async () =>
  `${serverUsage()}\n${(await loadClient()).clientUsage()}\nClient settings, from the environment:\n${settingsHelp(clientSettings)}`

async function main(args: string[]): Promise<number> {
  const [command = 'help', ...rest] = args
  const isForServer =
    serverCommands.includes(command) ||
    command.startsWith('-') ||
    (command === 'ip-restrictions' && rest[0] === 'release') ||
    (command === 'rollouts' && (await isForOperator(rest)))
  if (!isForServer) return (await loadClient()).runClient(readClientConfig(), serverCommands, args)
  if (rest.includes('--help') || rest.includes('-h')) return help(args.filter((arg) => !arg.startsWith('-')))
  switch (command) {
    case 'serve':
      parseArgs({ args: rest, options: {} })
      return endService(await (await import('./commands/serve.ts')).serve(readConfig()))
    case 'setup':
      return (await import('./setup/setup.ts')).setup(rest)
    case 'edge':
      return edgeNode(rest)
    case 'migrate':
      parseArgs({ args: rest, options: {} })
      return (await import('./commands/operator/migrate.ts')).migrateCommand(await ownerConfig())
    case 'bootstrap': {
      const options = {
        account: { type: 'string', default: 'default' },
        'admin-name': { type: 'string', default: 'admin' },
        'admin-email': { type: 'string', default: 'admin@localhost' },
      } as const
      const { values } = parseArgs({ args: rest, options })
      return (await import('./commands/operator/bootstrap.ts')).bootstrap(await serveConfig(), {
        accountName: values.account,
        adminName: values['admin-name'],
        adminEmail: values['admin-email'],
      })
    }
    case 'doctor':
      return runDoctor(rest)
    case 'status':
      return (await import('./cli/commands/status.ts')).statusCommand(
        readClientConfig(),
        readLocalParts((await loadEnvironment()).environmentHere()),
        rest,
      )
    case 'ip-restrictions':
      return releaseRestrictions(rest.slice(1))
    case 'recover':
      return recover(rest)
    case 'signing-keys':
    case 'secrets':
    case 'edge-keys':
    case 'rate-limits':
    case 'quotas':
    case 'domains':
    case 'nats':
    case 'nodes':
    case 'cells':
    case 'rollouts':
    case 'emergency':
      return manage(command, rest)
    case 'backup':
      return (await import('./commands/operator/backup.ts')).backup(await ownerConfig(), rest)
    case 'restore':
      return (await import('./commands/operator/restore.ts')).restore((await loadConfigs()).ownerConfigHere, rest)
    case 'after-restore':
      parseArgs({ args: rest, options: {} })
      return (await import('./commands/operator/after_restore.ts')).afterRestore(await ownerConfig())
    case 'terraform-provider':
      return (await import('./terraform/command.ts')).terraformProvider(process.env, version, readClientConfig, rest)
    case 'version':
    case '--version':
      console.log(version)
      return 0
    case 'help':
      return help(rest)
    case '--help':
    case '-h':
      return help([])
    default:
      console.error(`gatehouse: unknown option '${command}'. Run 'gatehouse --help' for a list of commands.`)
      return 2
  }
}

/**
 * Rollouts have a number for the operator and an id for their account. On machines with database access, a list shows
 * all accounts.
 */
async function isForOperator([verb = 'list', number = '', ...rest]: string[]): Promise<boolean> {
  if (verb !== 'list') return /^\d+$/.test(number) && !['get', 'watch', 'revert'].includes(verb)
  if ([number, ...rest].some((flag) => flag !== '')) return false
  return (await loadConfigs()).hasDatabaseHere()
}

async function releaseRestrictions(args: string[]): Promise<number> {
  const { restrictionTypes } = await import('./access/policies.ts')
  const { values } = parseArgs({ args, options: { account: { type: 'string' }, type: { type: 'string' } } })
  const { account } = values
  const type = restrictionTypes.find((known) => known === values.type)
  if (!account || !type)
    throw new ConfigError(`--account and --type (one of ${restrictionTypes.join(', ')}) are required`)
  return (await import('./commands/operator/release.ts')).release(await serveConfig(), { account, type })
}

async function edgeNode(args: string[]): Promise<number> {
  const [verb, ...rest] = args
  if (verb === 'status')
    return (await import('./commands/edge_node/status.ts')).edgeStatus(
      readEdgeStatusConfig((await loadEnvironment()).environmentHere()),
    )
  if (verb === 'apply-emergency')
    return (await import('./commands/edge_node/apply_emergency.ts')).applyEmergency(
      rest,
      readEdgeStatusConfig((await loadEnvironment()).environmentHere()),
    )
  if (verb === 'join') return (await import('./commands/edge_node/join.ts')).edgeJoin(rest, readEdgeFolder())
  parseArgs({ args, options: {} })
  return endService(await (await import('./commands/edge.ts')).edge(readEdgeConfig(joinedEnvironment())))
}

/** Supports `gatehouse --profile prod caller` by moving the command to the front. */
async function commandFirst(args: string[]): Promise<string[]> {
  if (!args[0]?.startsWith('-') || args.length === 1) return args
  const reordered = (await loadClient()).withFlagsLast(args)
  return reordered[0]?.startsWith('-') ? args : reordered
}

/** Prints the help of one command, or of all. */
async function help(words: string[]): Promise<number> {
  if (words.length === 0) {
    console.log(await usage())
    return 0
  }
  const text = helpOfServerCommand(words)
  if (text === undefined)
    return (await loadClient()).runClient(readClientConfig(), serverCommands, [...words, '--help'])
  console.log(text)
  return 0
}

/** How long an exiting process waits for the reader of its log. */
const lastLinesMs = 1_000

/** Exits explicitly: a log reader that has stopped would keep the process alive. */
async function endService(code: number): Promise<never> {
  const isRead = new Promise((resolve) => process.stdout.write('', resolve))
  await Promise.race([isRead, new Promise((resolve) => setTimeout(resolve, lastLinesMs))])
  process.exit(code)
}

async function runDoctor(args: string[]): Promise<number> {
  const text = { type: 'string' } as const
  const options = { output: { ...text, default: 'text' }, 'env-file': text, service: text } as const
  const { values } = parseArgs({ args, options })
  const { doctor, doctorOutputs } = await import('./doctor/doctor.ts')
  const output = doctorOutputs.find((known) => known === values.output)
  if (!output) throw new ConfigError(`--output must be one of ${doctorOutputs.join(', ')}`)
  const { 'env-file': file, service } = values
  if (file && service) throw new ConfigError('--env-file and --service exclude each other')
  const environment = file ? { ...process.env, ...readEnvironmentFile(file) } : process.env
  const code = await doctor({ environment, service, output })
  // Exits explicitly: a connection to a server that does not answer would keep the process alive.
  process.exit(code)
}

async function recover(args: string[]): Promise<number> {
  const { values } = parseArgs({ args, options: { account: { type: 'string', default: 'default' } } })
  return (await import('./commands/operator/bootstrap.ts')).recover(await serveConfig(), values.account)
}

type Managed =
  | 'signing-keys'
  | 'secrets'
  | 'edge-keys'
  | 'rate-limits'
  | 'quotas'
  | 'domains'
  | 'nats'
  | 'nodes'
  | 'cells'
  | 'rollouts'
  | 'emergency'

/** Commands for resources that only the operator manages. */
async function manage(command: Managed, args: string[]): Promise<number> {
  const [verb = 'list', ...rest] = args
  switch (command) {
    case 'signing-keys':
      return (await import('./commands/operator/signing_keys.ts')).signingKeys(await serveConfig(), verb, rest[0])
    case 'secrets':
      parseArgs({ args: rest, options: {} })
      return (await import('./commands/operator/secrets.ts')).secrets(await serveConfig(), verb)
    case 'domains':
      return (await import('./commands/operator/domains.ts')).domains(await serveConfig(), verb, rest)
    case 'nats':
      return (await import('./commands/operator/nats.ts')).nats(await ownerConfig(), verb, rest)
    case 'nodes':
      return (await import('./commands/operator/nodes.ts')).nodes(await ownerConfig(), verb, rest)
    case 'cells':
      return (await import('./commands/operator/cells.ts')).cells(await ownerConfig(), verb, rest)
    case 'rollouts':
      return (await import('./commands/operator/rollouts.ts')).rollouts(await ownerConfig(), verb, rest)
    case 'emergency':
      return (await import('./commands/operator/emergency.ts')).emergency(verb, rest)
    case 'edge-keys':
      return (await import('./commands/operator/edge_keys.ts')).edgeKeys(await serveConfig(), verb, rest)
    case 'rate-limits': {
      const options = { account: { type: 'string' }, 'requests-per-minute': { type: 'string' } } as const
      const { values } = parseArgs({ args: rest, options })
      return (await import('./commands/operator/rate_limits.ts')).rateLimits(await serveConfig(), verb, values)
    }
    case 'quotas': {
      const text = { type: 'string' } as const
      const { values } = parseArgs({ args: rest, options: { account: text, kind: text, limit: text } })
      return (await import('./commands/operator/quotas.ts')).quotas(await serveConfig(), verb, values)
    }
  }
}

/** Covers an intercontinental round trip, one lost packet and a busy machine; Node's default of 250 ms covers none. */
const addressTimeoutMs = 2_000

export async function run(args: string[]): Promise<void> {
  // Per address of a name: after this time Node tries the next, and only the last may take longer. Otherwise a distant
  // server behind a dead last address would be unreachable.
  setDefaultAutoSelectFamilyAttemptTimeout(addressTimeoutMs)
  try {
    process.exitCode = await main(await commandFirst(args))
  } catch (error) {
    const { code, message } = error as { code?: string; message: string }
    const isUnreadable = error instanceof UnreadableSecret
    const fault = isUnreadable ? `a secret in the database cannot be read: ${message}` : setupFault(error)
    const isSettingWrong = error instanceof ConfigError || code?.startsWith('ERR_PARSE_ARGS') || fault !== undefined
    const forTheOperator = isSettingWrong || isUnavailable(error) || code === 'EADDRINUSE' || code === 'EADDRNOTAVAIL'
    console.error(
      `gatehouse: ${forTheOperator ? (fault ?? (message || `PostgreSQL does not answer (${code})`)) : ((error as Error).stack ?? error)}`,
    )
    // Exits immediately: open handles must not keep a failed process alive. systemd does not restart services after 2;
    // after 1 it does, because a database may return or a port become free.
    process.exit(isSettingWrong ? 2 : 1)
  }
}
