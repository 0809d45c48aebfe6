import { randomBytes } from 'node:crypto'
import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Step } from './step.ts'

export type Folders = { controlPlane: string; nats: string; edge: string; edgeState: string }
/** Folders that the units use. */
export const folders: Folders = {
  controlPlane: '/etc/gatehouse',
  nats: '/etc/gatehouse-nats',
  edge: '/etc/gatehouse-edge',
  edgeState: '/var/lib/gatehouse-edge',
}
/** The control plane's copy of secrets.key, which only its own process can read. */
export const secretsCredential = '/run/credentials/gatehouse.service/secrets-key'
/**
 * The NATS URL for programs on this machine. `localhost` has a second address at which NATS does not listen, and a busy
 * machine may try that one instead.
 */
export const localNatsUrl = 'tls://127.0.0.1:4222'
export const defaultPublicUrl = 'http://127.0.0.1:8080'
/** Announced to joining nodes. A node listens on each port, so this is not the default range of ten thousand. */
const tcpPorts = '20000-20999'
/**
 * PostgreSQL, NATS and the API listen here. Denied by default, and with this even if an operator allows a wider network.
 */
const deniedUpstreams = '127.0.0.0/8,::1'
export const secret = 0o600
export const forEveryone = 0o644

export const newPassword = (): string => randomBytes(24).toString('hex')

/** Fails if the file has appeared meanwhile: nothing is overwritten, even by two concurrent runs. */
export function writeOnce(file: string, text: string, mode: number): void {
  writeFileSync(file, text, { mode: secret, flag: 'wx', flush: true })
  // Set afterwards, because the umask would restrict the mode of a new file.
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
