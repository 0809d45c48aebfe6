#!/usr/bin/env node
import { parseArgs } from 'node:util'
import {
  clientSettings,
  edgeSettings,
  readClientConfig,
  readConfig,
  readEdgeConfig,
  readEdgeStatusConfig,
  settings,
  settingsHelp,
} from './config.ts'
import { isUnavailable, setupFault } from './db/failures.ts'
import { ConfigError } from './kernel/setting_values.ts'
import { version } from './version.ts'

const serverUsage = `Gatehouse ${version}: a control plane for API keys, IP restrictions and network edges.

Server commands:

  gatehouse serve       serve the API
  gatehouse edge        run an edge node: configure HAProxy on this machine from the API
  gatehouse edge status show the state of the edge node on this machine
  gatehouse migrate     upgrade the database to this version
  gatehouse bootstrap   create an account with an admin and an API key, and print its token
                          --account NAME  --admin-name NAME  --admin-email ADDRESS
  gatehouse recover     create a new API key for an admin of an account that has lost all of its keys
                          --account NAME|ac_…
  gatehouse signing-keys list | add | activate KEY
                        manage the keys that sign records for edge nodes
  gatehouse edge-keys list | accept NODE FINGERPRINT | revoke NODE
                        manage the keys of edge nodes, to which private keys of certificates are encrypted
  gatehouse secrets list | rotate
                        show which keys encrypt the private keys of certificates; encrypt all with the current key
  gatehouse ip-restrictions release --account NAME|ac_… --type api|dashboard|agent|endpoints
                        make the enforced restrictions of a type only warn, to recover from a lockout
  gatehouse rate-limits list | set --account NAME|ac_… --requests-per-minute N | clear --account NAME|ac_…
                        manage how many requests each API key of an account may make
  gatehouse domains list | assign ACCOUNT DOMAIN | unassign ACCOUNT DOMAIN
                        let an account have a domain without a proof in its DNS
  gatehouse after-restore
                        run once after restoring the database from a backup, so that edge nodes accept new changes
  gatehouse version     print the version

  gatehouse <command> --help   show the environment variables that a command reads
`
const serverCommands = [
  'serve',
  'edge',
  'migrate',
  'bootstrap',
  'recover',
  'signing-keys',
  'secrets',
  'edge-keys',
  'rate-limits',
  'domains',
  'after-restore',
  'version',
  'help',
]

// Loaded on demand: the client should not wait for the database driver and web server to load, nor they for the client.
const loadClient = () => import('./cli/run.ts')
const usage = async () =>
  `${serverUsage}\n${(await loadClient()).clientUsage()}\nClient settings, from the environment:\n${settingsHelp(clientSettings)}`

async function main(args: string[]): Promise<number> {
  const [command = 'help', ...rest] = args
  const isForServer =
    serverCommands.includes(command) ||
    command.startsWith('-') ||
    (command === 'ip-restrictions' && rest[0] === 'release')
  if (!isForServer) return (await loadClient()).runClient(readClientConfig(), serverCommands, args)
  if (rest.includes('--help')) {
    const known = command === 'edge' ? edgeSettings : settings
    console.log(`${serverUsage}\nSettings, from the environment:\n${settingsHelp(known)}`)
    return 0
  }
  switch (command) {
    case 'serve':
      parseArgs({ args: rest, options: {} })
      return (await import('./commands/serve.ts')).serve(readConfig())
    case 'edge':
      if (rest[0] === 'status')
        return (await import('./commands/edge_node/status.ts')).edgeStatus(readEdgeStatusConfig())
      parseArgs({ args: rest, options: {} })
      return (await import('./commands/edge.ts')).edge(readEdgeConfig())
    case 'migrate':
      parseArgs({ args: rest, options: {} })
      return (await import('./commands/migrate.ts')).migrateCommand(readConfig())
    case 'bootstrap': {
      const options = {
        account: { type: 'string', default: 'default' },
        'admin-name': { type: 'string', default: 'admin' },
        'admin-email': { type: 'string', default: 'admin@localhost' },
      } as const
      const { values } = parseArgs({ args: rest, options })
      return (await import('./commands/bootstrap.ts')).bootstrap(readConfig(), {
        accountName: values.account,
        adminName: values['admin-name'],
        adminEmail: values['admin-email'],
      })
    }
    case 'ip-restrictions': {
      const [, ...flags] = rest
      const { restrictionTypes } = await import('./access/policies.ts')
      const { values } = parseArgs({ args: flags, options: { account: { type: 'string' }, type: { type: 'string' } } })
      const type = restrictionTypes.find((known) => known === values.type)
      if (!values.account || !type)
        throw new ConfigError(`--account and --type (one of ${restrictionTypes.join(', ')}) are required`)
      return (await import('./commands/release.ts')).release(readConfig(), { account: values.account, type })
    }
    case 'recover': {
      const { values } = parseArgs({ args: rest, options: { account: { type: 'string', default: 'default' } } })
      return (await import('./commands/bootstrap.ts')).recover(readConfig(), values.account)
    }
    case 'signing-keys':
    case 'secrets':
    case 'edge-keys':
    case 'rate-limits':
    case 'domains':
      return manage(command, rest)
    case 'after-restore':
      parseArgs({ args: rest, options: {} })
      return (await import('./commands/after_restore.ts')).afterRestore(readConfig())
    case 'version':
    case '--version':
      console.log(version)
      return 0
    case 'help':
    case '--help':
      console.log(await usage())
      return 0
    default:
      console.error(`gatehouse: unknown command '${command}'\n\n${await usage()}`)
      return 2
  }
}

type Managed = 'signing-keys' | 'secrets' | 'edge-keys' | 'rate-limits' | 'domains'

/** Commands that list and change what only the operator may. */
async function manage(command: Managed, args: string[]): Promise<number> {
  const [verb = 'list', ...rest] = args
  switch (command) {
    case 'signing-keys':
      return (await import('./commands/signing_keys.ts')).signingKeys(readConfig(), verb, rest[0])
    case 'secrets':
      parseArgs({ args: rest, options: {} })
      return (await import('./commands/secrets.ts')).secrets(readConfig(), verb)
    case 'domains':
      return (await import('./commands/domains.ts')).domains(readConfig(), verb, rest)
    case 'edge-keys':
      return (await import('./commands/edge_keys.ts')).edgeKeys(readConfig(), verb, rest)
    case 'rate-limits': {
      const options = { account: { type: 'string' }, 'requests-per-minute': { type: 'string' } } as const
      const { values } = parseArgs({ args: rest, options })
      return (await import('./commands/rate_limits.ts')).rateLimits(readConfig(), verb, values)
    }
  }
}

try {
  process.exitCode = await main(process.argv.slice(2))
} catch (error) {
  const { code, message } = error as { code?: string; message: string }
  const fault = setupFault(error)
  const forTheOperator =
    error instanceof ConfigError || code?.startsWith('ERR_PARSE_ARGS') || isUnavailable(error) || fault !== undefined
  console.error(
    `gatehouse: ${forTheOperator ? (fault ?? (message || `PostgreSQL does not answer (${code})`)) : ((error as Error).stack ?? error)}`,
  )
  // Exit immediately: open handles must not keep a failed process alive.
  process.exit(forTheOperator ? 2 : 1)
}
