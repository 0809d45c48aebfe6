// `gatehouse setup --admit-control-plane KEY`, on a machine that serves.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { withDatabase } from '../commands/database.ts'
import { readConfig } from '../config/config.ts'
import { settings } from '../config/server.ts'
import { version } from '../config/version.ts'
import { natsHost } from '../distribution/nats_connection.ts'
import { ConfigError } from '../kernel/config_error.ts'
import { readDatabaseUrl } from '../kernel/database_url.ts'
import { type Bundle, type BundledFile, isRecipient, seal, systemOf } from './bundle.ts'
import { controlPlaneEnvironment } from './environment.ts'
import { type Folders, folders, secretsCredential } from './files.ts'

/** Prints nothing else, so that the output can be piped to the other machine. */
export async function admitControlPlane(recipient: string): Promise<number> {
  if (!isRecipient(recipient))
    throw new ConfigError(
      "--admit-control-plane takes the key that 'gatehouse setup --join-control-plane' prints on the other machine, age1…",
    )
  const bundle = await bundleOf(folders)
  requireReachable(bundle)
  process.stdout.write(seal(bundle, recipient))
  return 0
}

export async function bundleOf(at: Folders): Promise<Bundle> {
  const environment = controlPlaneEnvironment(at)
  const text = (file: string) => (existsSync(file) ? readFileSync(file, 'utf8') : undefined)
  const here = (name: BundledFile) => text(join(at.controlPlane, name))
  // As for the service, a secret in the settings takes precedence over its file.
  const secret = (name: string, file: BundledFile) => (environment[name] ? `${environment[name]}\n` : here(file))
  const { GATEHOUSE_SECRETS_KEY_FILE: keys, GATEHOUSE_NATS_CA_FILE: authority } = environment
  const found: Record<BundledFile, string | undefined> = {
    'database-url': secret('GATEHOUSE_DATABASE_URL', 'database-url'),
    'database-owner-url': here('database-owner-url'),
    'nats-password': secret('GATEHOUSE_NATS_PASSWORD', 'nats-password'),
    'secrets.key': keys && text(keys),
    'nats-ca.pem': authority && text(authority),
  }
  for (const [name, file] of [
    ['GATEHOUSE_SECRETS_KEY_FILE', keys],
    ['GATEHOUSE_NATS_CA_FILE', authority],
  ])
    if (file && text(file) === undefined) throw new ConfigError(`${name} is ${file}, which is missing`)
  const files = Object.fromEntries(Object.entries(found).filter(([, content]) => content?.trim())) as Bundle['files']
  if (!files['database-url'])
    throw new ConfigError(`this machine does not serve: ${at.controlPlane}/database-url is missing`)
  const config = readConfig({ ...environment, GATEHOUSE_DATABASE_URL: files['database-url'].trim() })
  const inFiles = ['GATEHOUSE_DATABASE_URL', 'GATEHOUSE_NATS_PASSWORD']
  const given = Object.entries(environment).flatMap(([name, value]) => (value ? [[name, value] as const] : []))
  return {
    version,
    system: await withDatabase(config, systemOf),
    settings: {
      ...Object.fromEntries(given.filter(([name]) => name in settings && !inFiles.includes(name))),
      ...(keys && { GATEHOUSE_SECRETS_KEY_FILE: secretsCredential }),
      ...(authority && { GATEHOUSE_NATS_CA_FILE: join(at.controlPlane, 'nats-ca.pem') }),
    },
    files,
    unknown: given.map(([name]) => name).filter((name) => !(name in settings)),
  }
}

const isLocal = (host: string): boolean => host === 'localhost' || host === '::1' || host.startsWith('127.')

/** With an address such as localhost, the other machine would use a database or NATS of its own. */
export function requireReachable({ settings: its, files }: Pick<Bundle, 'settings' | 'files'>): void {
  const config = readConfig({
    GATEHOUSE_NATS_URL: its.GATEHOUSE_NATS_URL,
    GATEHOUSE_DATABASE_URL: files['database-url'],
  })
  const { servers } = readDatabaseUrl(config.GATEHOUSE_DATABASE_URL)
  const nats = config.GATEHOUSE_NATS_URL.map((server) => natsHost(server).host)
  const says = 'leads to this machine itself. Name the servers as other machines reach them, and restart gatehouse'
  if (servers.length === 0 || servers.some(({ host }) => isLocal(host)))
    throw new ConfigError(`the URL of the database ${says}`)
  if (nats.some(isLocal)) throw new ConfigError(`GATEHOUSE_NATS_URL ${says}`)
}
