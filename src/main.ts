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
import { isUnavailable } from './db/failures.ts'
import { ConfigError } from './kernel/setting_values.ts'
import { version } from './version.ts'

const serverUsage = `Gatehouse ${version}: who may call the API, which addresses may reach what.

On the server:

  gatehouse serve       serve the API
  gatehouse edge        make HAProxy on this node do what the API says
  gatehouse edge status what the node on this machine has in force
  gatehouse migrate     bring the database to this version
  gatehouse bootstrap   make an account with an admin and a key, and print the key's token
                          --account NAME  --admin-name NAME  --admin-email ADDRESS
  gatehouse recover     make a new key for an admin of an account that has lost all of its own
                          --account NAME|ac_…
  gatehouse signing-keys list | add | activate KEY
                        the keys that records for edge nodes are signed with
  gatehouse ip-restrictions release --account NAME|ac_… --type api|dashboard|agent|endpoints
                        make the enforced restrictions of a type warn only: the way back in after a lock-out
  gatehouse after-restore
                        after the database was restored to an earlier point: what edges are told from now on is newer
                        than all that they know
  gatehouse version     print the version

  gatehouse <command> --help   the environment variables that it reads
`
const serverCommands = [
  'serve',
  'edge',
  'migrate',
  'bootstrap',
  'recover',
  'signing-keys',
  'after-restore',
  'version',
  'help',
]

// Each part is loaded when it is asked for: the client should not wait for the database driver and the web server, nor
// they for the client.
const loadClient = () => import('./cli/run.ts')
const usage = async () =>
  `${serverUsage}\n${(await loadClient()).clientUsage()}\nSettings of the client, from the environment:\n${settingsHelp(clientSettings)}`

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
      if (rest[0] === 'status') return (await import('./commands/edge.ts')).edgeStatus(readEdgeStatusConfig())
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
        throw new ConfigError(`give --account and --type (one of ${restrictionTypes.join(', ')})`)
      return (await import('./commands/release.ts')).release(readConfig(), { account: values.account, type })
    }
    case 'recover': {
      const { values } = parseArgs({ args: rest, options: { account: { type: 'string', default: 'default' } } })
      return (await import('./commands/bootstrap.ts')).recover(readConfig(), values.account)
    }
    case 'signing-keys': {
      const [verb = 'list', key] = rest
      return (await import('./commands/signing_keys.ts')).signingKeys(readConfig(), verb, key)
    }
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
      console.error(`gatehouse: there is no command '${command}'\n\n${await usage()}`)
      return 2
  }
}

try {
  process.exitCode = await main(process.argv.slice(2))
} catch (error) {
  const { code, message } = error as { code?: string; message: string }
  const lacksRights = code === '42501'
  const forTheOperator =
    error instanceof ConfigError || code?.startsWith('ERR_PARSE_ARGS') || isUnavailable(error) || lacksRights
  const hint = lacksRights ? ". Set GATEHOUSE_DATABASE_URL to the role that owns the tables, which 'migrate' uses" : ''
  console.error(
    `gatehouse: ${forTheOperator ? message + hint || `PostgreSQL does not answer (${code})` : ((error as Error).stack ?? error)}`,
  )
  // At once: whatever was already opened must not keep a process alive that has failed.
  process.exit(forTheOperator ? 2 : 1)
}
