import { existsSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { ConfigError } from '../kernel/config_error.ts'
import { accountSteps, activeSigningKey, migrationStep } from './account.ts'
import { edgeConfig, ownerConfig, serveConfig } from './configs.ts'
import { databaseSteps, requirePostgres } from './database.ts'
import { edgeFileSteps, folders, natsSteps, settingsSteps } from './files.ts'
import { requirePrograms, serviceStep } from './services.ts'
import { perform, type Step } from './step.ts'

const options = {
  plan: { type: 'boolean', default: false },
  account: { type: 'string', default: 'default' },
  'admin-name': { type: 'string', default: 'admin' },
  'admin-email': { type: 'string', default: 'admin@localhost' },
  'public-url': { type: 'string', default: 'http://127.0.0.1:8080' },
} as const

/**
 * Everything that an installation on one Debian machine needs beside the packages. Each step looks first whether its part
 * is there, and leaves it alone if so: running it again continues where it failed, and overwrites nothing.
 */
export async function setup(args: string[]): Promise<number> {
  const { values } = parseArgs({ args, options })
  const hasEdge = existsSync('/usr/bin/gatehouse-edge')
  if (process.getuid?.() !== 0) throw new ConfigError('setup changes /etc and starts services. Run it as root')
  requirePrograms(['openssl', 'systemctl', 'nats-server', ...(hasEdge ? ['haproxy'] : [])])
  requirePostgres()

  const account = {
    accountName: values.account,
    adminName: values['admin-name'],
    adminEmail: values['admin-email'],
  }
  const steps: Step[] = [
    ...databaseSteps(),
    ...natsSteps(folders, 'gatehouse-nats'),
    ...settingsSteps(folders, values['public-url']),
    serviceStep('gatehouse-nats.service'),
    migrationStep(ownerConfig),
    ...accountSteps(serveConfig, account),
    serviceStep('gatehouse.service', () => readyUrl(serveConfig().GATEHOUSE_LISTEN)),
    ...(hasEdge ? edgeFileSteps(folders, values['public-url'], () => activeSigningKey(serveConfig)) : []),
    ...(hasEdge
      ? [serviceStep('gatehouse-edge.service', () => readyUrl(edgeConfig().GATEHOUSE_EDGE_STATUS_LISTEN))]
      : []),
  ]
  await perform(steps, values.plan)
  if (!hasEdge) console.log('skipped  edge node: install the package gatehouse-edge and run this command again')
  if (!values.plan)
    console.log(
      `\nThe API is at ${serveConfig().GATEHOUSE_PUBLIC_URL}. An admin's token is in ${folders.controlPlane}/admin-token: move it to a safe place.`,
    )
  return 0
}

const readyUrl = ({ host, port }: { host: string; port: number }): string =>
  `http://${host.includes(':') ? `[${host}]` : host}:${port}/readyz`
