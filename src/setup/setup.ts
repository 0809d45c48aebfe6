import { existsSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { readyUrl } from '../commands/start_unit.ts'
import { ConfigError } from '../kernel/config_error.ts'
import { accountSteps, migrationStep } from './account.ts'
import { admitControlPlane } from './admit.ts'
import { certificateStep } from './certificate.ts'
import { edgeConfig, ownerConfig, serveConfig } from './configs.ts'
import { databaseSteps, requirePostgres } from './database.ts'
import { edgeSteps } from './edge.ts'
import { folders, settingsSteps } from './files.ts'
import { joinControlPlane } from './join.ts'
import { hasPasswords, operatorSteps, rootKeyFile } from './nats.ts'
import { outsideHost, publicUrlSteps } from './outside.ts'
import { requirePrograms, serviceStep } from './services.ts'
import { perform, type Step } from './step.ts'

const options = {
  plan: { type: 'boolean', default: false },
  'database-only': { type: 'boolean', default: false },
  account: { type: 'string', default: 'default' },
  'admin-name': { type: 'string', default: 'admin' },
  'admin-email': { type: 'string', default: 'admin@localhost' },
  'public-url': { type: 'string' },
  'admit-control-plane': { type: 'string' },
  'join-control-plane': { type: 'boolean', default: false },
  bundle: { type: 'string' },
  listen: { type: 'string' },
} as const

/**
 * Sets up everything for an installation on one Debian machine except the packages. Each step first checks whether its
 * part exists, and then leaves it alone: a second run continues where the first one failed, and overwrites nothing.
 */
export async function setup(args: string[]): Promise<number> {
  const { values } = parseArgs({ args, options })
  const hasEdge = existsSync('/usr/bin/gatehouse-edge')
  if (process.getuid?.() !== 0) throw new ConfigError('setup changes /etc and starts services. Run it as root')
  if (values['admit-control-plane'] !== undefined) return admitControlPlane(values['admit-control-plane'])
  if (values['join-control-plane']) return joinControlPlane(values)
  // A restored database already has the account that the other steps would create.
  if (values['database-only']) {
    requirePostgres()
    await perform(databaseSteps(), values.plan)
    return 0
  }
  requirePrograms(['openssl', 'systemctl', 'nats-server', ...(hasEdge ? ['haproxy'] : [])])
  requirePostgres()

  const account = {
    accountName: values.account,
    adminName: values['admin-name'],
    adminEmail: values['admin-email'],
  }
  const publicUrl = values['public-url'] === undefined ? undefined : readUrl(values['public-url'])
  const isOld = hasPasswords(folders)
  const steps: Step[] = [
    ...databaseSteps(),
    certificateStep(folders, 'gatehouse-nats', publicUrl && outsideHost(publicUrl)),
    ...settingsSteps(folders),
    migrationStep(ownerConfig),
    ...(isOld ? [] : operatorSteps(folders, serveConfig)),
    ...(publicUrl ? publicUrlSteps(folders, publicUrl) : []),
    serviceStep('gatehouse-nats.service'),
    ...accountSteps(serveConfig, account),
    serviceStep('gatehouse.service', () => readyUrl(serveConfig().GATEHOUSE_LISTEN)),
    ...(hasEdge
      ? [
          ...edgeSteps(folders, serveConfig),
          serviceStep('gatehouse-edge.service', () => readyUrl(edgeConfig().GATEHOUSE_EDGE_STATUS_LISTEN)),
        ]
      : []),
  ]
  await perform(steps, values.plan)
  if (!hasEdge) console.log('skipped  edge node: install the package gatehouse-edge and run this command again')
  if (isOld)
    console.log(
      'skipped  operator mode of NATS, whose nodes have passwords: see docs/operate/upgrade-from-passwords.md',
    )
  if (!values.plan) tellWhatIsLeft()
  return 0
}

function tellWhatIsLeft(): void {
  console.log(`\nThe API is at ${serveConfig().GATEHOUSE_PUBLIC_URL}.`)
  const secrets = {
    [`${folders.controlPlane}/admin-token`]: "an admin's token",
    [rootKeyFile(folders)]: 'the root key of NATS, which no service needs',
  }
  for (const [file, what] of Object.entries(secrets))
    if (existsSync(file)) console.log(`Move ${file} to a safe place: ${what}.`)
}

function readUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (!url || !/^https?:$/.test(url.protocol) || url.pathname !== '/')
    throw new ConfigError('--public-url must be a URL such as https://gatehouse.example.com')
  return url.origin
}
