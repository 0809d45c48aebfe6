import { type Config, readConfig } from '../config/config.ts'
import { settings } from '../config/server.ts'
import { checkDns } from './dns.ts'
import { bounded, type Finding, isUsable, ok } from './finding.ts'
import { checkNats, natsClient } from './nats.ts'
import { controlPlaneCredentials } from './nats_credentials.ts'
import { checkOwner } from './owner.ts'
import { checkOwnPort } from './ports.ts'
import { checkPostgres } from './postgres.ts'
import { checkSecretsKey } from './secrets.ts'
import type { Service } from './services.ts'
import { checkSecretFiles, checkSettings } from './settings.ts'
import { checkStartSettings } from './start_settings.ts'

export function checkControlPlane(environment: NodeJS.ProcessEnv, service?: Service): Promise<Finding[]>[] {
  const read = checkSettings(settings, environment)
  const first = Promise.resolve([...read, ...checkSecretFiles(settings, environment)])
  if (!isUsable(read)) return [first]
  const config = readConfig(environment)
  return [
    first,
    bounded('settings.files', checkStartSettings(config)),
    bounded('listen.port', checkListen(config, service)),
    bounded('postgresql', checkPostgres(config)),
    bounded('secrets', Promise.resolve(checkSecretsKey(config))),
    config.GATEHOUSE_NATS_URL.length === 0
      ? Promise.resolve([ok('nats.server', 'GATEHOUSE_NATS_URL is not set: this installation has no edges')])
      : bounded('nats', checkNatsOf(config)),
    bounded('dns.servers', checkDns('GATEHOUSE_DNS_SERVERS', config.GATEHOUSE_DNS_SERVERS)),
  ]
}

const checkNatsOf = async (config: Config): Promise<Finding[]> =>
  checkNats({
    ...natsClient(config),
    replicas: config.GATEHOUSE_NATS_REPLICAS,
    credentials: await controlPlaneCredentials(config),
  })

const checkListen = (config: Config, service: Service | undefined): Promise<Finding[]> =>
  checkOwnPort(
    'listen.port',
    'GATEHOUSE_LISTEN',
    config.GATEHOUSE_LISTEN,
    { path: '/metrics', mark: 'gatehouse_build_info', name: "'gatehouse serve'" },
    service,
  )

/** Checks the additional requirements of 'gatehouse migrate': the same settings, and the URL of the tables' owner. */
export function checkMigration(environment: NodeJS.ProcessEnv): Promise<Finding[]>[] {
  const read = checkSettings(settings, environment)
  if (!isUsable(read)) return [Promise.resolve(read)]
  const { GATEHOUSE_DATABASE_URL_FILE: file = 'GATEHOUSE_DATABASE_URL' } = environment
  return [bounded('postgresql.owner', checkOwner(readConfig(environment), file))]
}
