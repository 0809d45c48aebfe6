import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseEnv } from 'node:util'
import type { Step } from './step.ts'

export type Folders = { controlPlane: string; nats: string; edge: string }
/** Where the units look. */
export const folders: Folders = {
  controlPlane: '/etc/gatehouse',
  nats: '/etc/gatehouse-nats',
  edge: '/etc/gatehouse-edge',
}
/** Where the unit of the control plane finds secrets.key. Only its own process can. */
export const secretsCredential = '/run/credentials/gatehouse.service/secrets-key'
const natsUrl = 'tls://localhost:4222'
/** Both parts must agree. A node listens on each of them, so not on all ten thousand of the default. */
const tcpPorts = '20000-20999'
/** Where PostgreSQL, NATS and the API listen. Denied anyway, and with this even if an operator allows a wider network. */
const deniedUpstreams = '127.0.0.0/8,::1'
const secret = 0o600
const forEveryone = 0o644

/** A letter first: nats-server reads a variable like any value of its configuration, and 12e4… would be a number. */
export const newPassword = (): string => `p${randomBytes(24).toString('hex')}`

/** Fails if the file has appeared meanwhile: nothing is overwritten, not even by two who run at once. */
export function writeOnce(file: string, text: string, mode: number): void {
  writeFileSync(file, text, { mode: secret, flag: 'wx', flush: true })
  // Afterwards, because a umask would count for the mode of a new file.
  chmodSync(file, mode)
}

const fileStep = (file: string, about: string, mode: number, text: () => string | Promise<string>): Step => ({
  what: `${file}: ${about}`,
  isDone: () => existsSync(file),
  run: async () => writeOnce(file, await text(), mode),
})

const read = (file: string): string => readFileSync(file, 'utf8')
const passwordFrom = ({ nats }: Folders, name: string): string => `${parseEnv(read(join(nats, 'nats.env')))[name]}\n`

/** Passwords for NATS, and a certificate of its own authority, whose key the group may read. */
export const natsSteps = (at: Folders, group: string): Step[] => [
  fileStep(join(at.nats, 'nats.env'), 'new passwords for NATS', secret, () =>
    ['GATEHOUSE_NATS_CONTROL_PLANE_PASSWORD', 'GATEHOUSE_NATS_EDGE_1_PASSWORD']
      .map((name) => `${name}=${newPassword()}\n`)
      .join(''),
  ),
  {
    what: `${at.nats}/server.pem, server.key, ca.pem: a certificate for NATS at localhost and ${hostname()}, and its authority`,
    isDone: () => existsSync(join(at.nats, 'server.pem')),
    run: () => makeCertificate(at.nats, group),
  },
]

export const settingsSteps = (at: Folders, publicUrl: string): Step[] => [
  fileStep(join(at.controlPlane, 'nats-password'), "the control plane's password for NATS", secret, () =>
    passwordFrom(at, 'GATEHOUSE_NATS_CONTROL_PLANE_PASSWORD'),
  ),
  fileStep(join(at.controlPlane, 'nats-ca.pem'), 'the authority of NATS', forEveryone, () =>
    read(join(at.nats, 'ca.pem')),
  ),
  fileStep(
    join(at.controlPlane, 'secrets.key'),
    'the key that encrypts secrets in the database',
    secret,
    () => `${randomBytes(32).toString('base64')}\n`,
  ),
  fileStep(join(at.controlPlane, 'setup.env'), 'settings of the control plane', forEveryone, () =>
    environment({
      GATEHOUSE_PUBLIC_URL: publicUrl,
      GATEHOUSE_SECRETS_KEY_FILE: secretsCredential,
      GATEHOUSE_TCP_PORTS: tcpPorts,
      GATEHOUSE_NATS_URL: natsUrl,
      GATEHOUSE_NATS_CA_FILE: join(at.controlPlane, 'nats-ca.pem'),
      GATEHOUSE_NATS_USER: 'control-plane',
    }),
  ),
]

/** What the node edge-1 needs to join: the name and password that NATS knows it by, and the key that signs its records. */
export const edgeFileSteps = (at: Folders, publicUrl: string, signingKey: () => Promise<string>): Step[] => [
  fileStep(join(at.edge, 'nats-password'), 'the password of edge-1 for NATS', secret, () =>
    passwordFrom(at, 'GATEHOUSE_NATS_EDGE_1_PASSWORD'),
  ),
  fileStep(join(at.edge, 'nats-ca.pem'), 'the authority of NATS', forEveryone, () => read(join(at.nats, 'ca.pem'))),
  fileStep(join(at.edge, 'setup.env'), 'settings of the edge node edge-1', forEveryone, async () =>
    environment({
      GATEHOUSE_EDGE_NODE: 'edge-1',
      GATEHOUSE_EDGE_TRUSTED_KEYS: await signingKey(),
      GATEHOUSE_TCP_PORTS: tcpPorts,
      GATEHOUSE_NATS_URL: natsUrl,
      GATEHOUSE_NATS_CA_FILE: join(at.edge, 'nats-ca.pem'),
      GATEHOUSE_NATS_USER: 'edge-1',
      GATEHOUSE_EDGE_UPSTREAM_DENY: deniedUpstreams,
      GATEHOUSE_EDGE_CONTROL_PLANE_HOSTS: hostOf(publicUrl),
    }),
  ),
]

const hostOf = (url: string): string => new URL(url).hostname.replace(/^\[|\]$/g, '')

const environment = (values: Record<string, string>): string =>
  Object.entries(values).reduce((text, [name, value]) => `${text}${name}=${value}\n`, '# Made by gatehouse setup.\n')

/** With openssl, because Node makes no certificates. server.pem comes last: it says that all of them are there. */
function makeCertificate(nats: string, group: string): void {
  const work = mkdtempSync(join(tmpdir(), 'gatehouse-setup-'))
  const openssl = (...args: string[]) =>
    execFileSync('openssl', args, { cwd: work, stdio: ['ignore', 'ignore', 'pipe'] })
  const newKey = ['req', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes']
  try {
    openssl(
      ...newKey,
      '-x509',
      '-days',
      '3650',
      '-subj',
      '/CN=Gatehouse authority',
      '-keyout',
      'ca.key',
      '-out',
      'ca.pem',
    )
    openssl(...newKey, '-subj', '/CN=gatehouse-nats', '-keyout', 'server.key', '-out', 'server.csr')
    writeFileSync(join(work, 'server.ext'), `subjectAltName=DNS:localhost,DNS:${hostname()},IP:127.0.0.1\n`)
    const signer = ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial']
    openssl(
      'x509',
      '-req',
      '-in',
      'server.csr',
      ...signer,
      '-days',
      '825',
      '-extfile',
      'server.ext',
      '-out',
      'server.pem',
    )
    const keep = (file: string, mode: number) => writeOnce(join(nats, file), read(join(work, file)), mode)
    keep('ca.key', secret)
    keep('ca.pem', forEveryone)
    keep('server.key', 0o640)
    execFileSync('chgrp', [group, join(nats, 'server.key')])
    keep('server.pem', forEveryone)
  } finally {
    rmSync(work, { recursive: true })
  }
}
