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

// Loaded on demand: the client should not wait for the database driver and web server to load, nor they for the client.
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

/** A rollout has a number for the operator and an id for its account. Where the database is at hand, a list is of all accounts. */
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

/** `gatehouse --profile prod caller`: the command comes first. */
async function commandFirst(args: string[]): Promise<string[]> {
  if (!args[0]?.startsWith('-') || args.length === 1) return args
  const reordered = (await loadClient()).withFlagsLast(args)
  return reordered[0]?.startsWith('-') ? args : reordered
}

/** Prints the help of the command that these words name, or of all. */
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

/** How long the end of a process waits for a reader of its log. */
const lastLinesMs = 1_000

/** Ends a service. Not by returning: a reader that has stopped would keep the process. */
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
  // Not by returning: a server that does not answer would keep its connection, and this process, open.
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

/** Commands that list and change what only the operator may. */
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

/** Covers another continent, one lost packet and a busy machine. Node's quarter of a second covers none of them. */
const addressTimeoutMs = 2_000

export async function run(args: string[]): Promise<void> {
  // Node gives up an address of a name for the next one after this long, and only the last may take its time: a far-away
  // server would never be reached if that one is dead.
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
    // Exit immediately: open handles must not keep a failed process alive.
    // Services are not started again after 2. A database that is down may come back, and a port may become free.
    process.exit(isSettingWrong ? 2 : 1)
  }
}
