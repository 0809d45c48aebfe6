import { randomBytes } from 'node:crypto'
import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Step } from './step.ts'

export type Folders = { controlPlane: string; nats: string; edge: string; edgeState: string }
/** Where the units look. */
export const folders: Folders = {
  controlPlane: '/etc/gatehouse',
  nats: '/etc/gatehouse-nats',
  edge: '/etc/gatehouse-edge',
  edgeState: '/var/lib/gatehouse-edge',
}
/** Where the unit of the control plane finds secrets.key. Only its own process can. */
export const secretsCredential = '/run/credentials/gatehouse.service/secrets-key'
/**
 * As the programs of this machine reach NATS. `localhost` has a second address, where NATS does not listen, and a busy
 * machine may give up the first for it.
 */
export const localNatsUrl = 'tls://127.0.0.1:4222'
export const defaultPublicUrl = 'http://127.0.0.1:8080'
/** Nodes that join learn it. A node listens on each of them, so not on all ten thousand of the default. */
const tcpPorts = '20000-20999'
/** Where PostgreSQL, NATS and the API listen. Denied anyway, and with this even if an operator allows a wider network. */
const deniedUpstreams = '127.0.0.0/8,::1'
export const secret = 0o600
export const forEveryone = 0o644

export const newPassword = (): string => randomBytes(24).toString('hex')

/** Fails if the file has appeared meanwhile: nothing is overwritten, not even by two who run at once. */
export function writeOnce(file: string, text: string, mode: number): void {
  writeFileSync(file, text, { mode: secret, flag: 'wx', flush: true })
  // Afterwards, because a umask would count for the mode of a new file.
  chmodSync(file, mode)
}

export const fileStep = (file: string, about: string, mode: number, text: () => string | Promise<string>): Step => ({
  what: `${file}: ${about}`,
  isDone: () => existsSync(file),
  run: async () => writeOnce(file, await text(), mode),
})

export const settingsSteps = (at: Folders): Step[] => [
  fileStep(join(at.controlPlane, 'nats-ca.pem'), 'the authority of NATS', forEveryone, () =>
    readFileSync(join(at.nats, 'ca.pem'), 'utf8'),
  ),
  fileStep(
    join(at.controlPlane, 'secrets.key'),
    'the key that encrypts secrets in the database',
    secret,
    () => `${randomBytes(32).toString('base64')}\n`,
  ),
  fileStep(join(at.controlPlane, 'setup.env'), 'settings of the control plane', forEveryone, () =>
    environment({
      GATEHOUSE_PUBLIC_URL: defaultPublicUrl,
      GATEHOUSE_SECRETS_KEY_FILE: secretsCredential,
      GATEHOUSE_TCP_PORTS: tcpPorts,
      GATEHOUSE_NATS_URL: localNatsUrl,
      GATEHOUSE_NATS_CA_FILE: join(at.controlPlane, 'nats-ca.pem'),
    }),
  ),
]

export const edgeSettingsStep = (at: Folders): Step =>
  fileStep(join(at.edge, 'setup.env'), 'addresses that tenants cannot reach through this node', forEveryone, () =>
    environment({ GATEHOUSE_EDGE_UPSTREAM_DENY: deniedUpstreams }),
  )

export const environment = (values: Record<string, string>): string =>
  Object.entries(values).reduce((text, [name, value]) => `${text}${name}=${value}\n`, '# Made by gatehouse setup.\n')
