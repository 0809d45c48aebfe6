import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { request } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { freePorts } from '../../dev/ports.ts'
import { endWithUs } from '../../dev/run_on_exit.ts'
import { newCertificate } from './certificates.ts'
import { type Scope, stop } from './control_plane.ts'
import { poll } from './poll.ts'

export type Pebble = {
  directoryUrl: string
  /** The roots that its own server is trusted by. */
  caFile: string
  ca: string
  /** What a browser has to trust. It is another one after each start. */
  rootOfIssued: () => Promise<string>
  /** How it calls each certificate, it suggests to renew from now on. */
  suggestRenewal: (certificatePem: string, window: { start: Date; end: Date }) => Promise<void>
  stop: () => Promise<void>
  /** On the same port, and without its earlier state. */
  start: () => Promise<void>
}
type Options = {
  dnsServer: string
  /** Where it asks for http-01. */
  httpPort: number
  /** How many percent of good nonces it refuses. */
  badNonces?: number
  /** Lifetime of each certificate. */
  validitySeconds?: number
}

function startProcess(program: string, args: readonly string[], env: Record<string, string> = {}): ChildProcess {
  const child = spawn(program, args, { env: { ...process.env, ...env }, stdio: 'ignore' })
  endWithUs(child, 'kill -9 "$0"')
  return child
}

/** Let's Encrypt's test authority: a real one, whose certificates are not trusted anywhere. */
export async function startPebble(scope: Scope, options: Options): Promise<Pebble> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-pebble-'))
  const [port = 0, management = 0] = await freePorts(2)
  const { certificate_pem: ca, private_key_pem } = newCertificate(['127.0.0.1'])
  const file = (name: string) => join(folder, name)
  await writeFile(file('certificate.pem'), ca)
  await writeFile(file('key.pem'), private_key_pem)
  const profile = { description: 'the only one', validityPeriod: options.validitySeconds ?? 90 * 24 * 3_600 }
  const config = {
    listenAddress: `127.0.0.1:${port}`,
    managementListenAddress: `127.0.0.1:${management}`,
    certificate: file('certificate.pem'),
    privateKey: file('key.pem'),
    httpPort: options.httpPort,
    tlsPort: 1,
    ocspResponderURL: '',
    externalAccountBindingRequired: false,
    profiles: { default: profile },
  }
  await writeFile(file('config.json'), JSON.stringify({ pebble: config }))
  const directoryUrl = `https://127.0.0.1:${port}/dir`
  const ask = (url: string, body?: object) =>
    new Promise<string>((resolve, reject) => {
      // It requires a User-Agent.
      const headers = { 'user-agent': 'tests' }
      const outgoing = request(url, { ca, headers, method: body ? 'POST' : 'GET' }, (response) => {
        void text(response).then(resolve, reject)
      })
      outgoing.on('error', reject).end(body && JSON.stringify(body))
    })
  let child: ChildProcess | undefined
  const end = async () => {
    if (child) await stop(child)
  }
  const start = async () => {
    const nonces = String(options.badNonces ?? 15)
    child = startProcess('pebble', ['-config', file('config.json'), '-dnsserver', options.dnsServer], {
      PEBBLE_VA_NOSLEEP: '1',
      PEBBLE_WFE_NONCEREJECT: nonces,
    })
    await poll(
      () => ask(directoryUrl).catch(() => ''),
      (answer) => answer.includes('newOrder'),
    )
  }
  scope.after(async () => {
    await end()
    await rm(folder, { recursive: true })
  })
  await start()
  const managementUrl = `https://127.0.0.1:${management}`
  return {
    directoryUrl,
    caFile: file('certificate.pem'),
    ca,
    rootOfIssued: () => ask(`${managementUrl}/roots/0`),
    async suggestRenewal(certificate, { start, end }) {
      const window = JSON.stringify({ suggestedWindow: { start: start.toISOString(), end: end.toISOString() } })
      await ask(`${managementUrl}/set-renewal-info/`, { certificate, ariResponse: window })
    },
    stop: end,
    start,
  }
}

export type ChallengeServer = {
  /** Address of its DNS: every name is on this machine, at 127.0.0.1. */
  dns: string
  /** Where records are set: POST /set-txt and so on. */
  url: string
  setTxt: (name: string, value: string) => Promise<void>
  clearTxt: (name: string) => Promise<void>
  /** From now on the name has this address. */
  setAddress: (name: string, address: string) => Promise<void>
  clearAddress: (name: string) => Promise<void>
}

/** pebble-challtestsrv, as the DNS of everybody: of the authority, and of the control plane. */
export async function startChallengeServer(scope: Scope): Promise<ChallengeServer> {
  const [dnsPort = 0, management = 0] = await freePorts(2)
  const none = ['-http01', '', '-https01', '', '-tlsalpn01', '', '-doh', '', '-defaultIPv6', '']
  const dns = `127.0.0.1:${dnsPort}`
  const args = ['-dnsserver', dns, '-management', `127.0.0.1:${management}`, ...none]
  const child = startProcess('pebble-challtestsrv', args)
  await once(child, 'spawn')
  scope.after(() => stop(child))
  const url = `http://127.0.0.1:${management}`
  const post = async (path: string, body: object) => {
    const { ok, status } = await fetch(url + path, { method: 'POST', body: JSON.stringify(body) })
    if (!ok) throw new Error(`${path} answered with ${status}`)
  }
  await poll(() =>
    post('/clear-txt', { host: 'nothing.example.' }).then(
      () => true,
      () => false,
    ),
  )
  return {
    dns,
    url,
    setTxt: (name, value) => post('/set-txt', { host: `${name}.`, value }),
    clearTxt: (name) => post('/clear-txt', { host: `${name}.` }),
    setAddress: (name, address) => post('/add-a', { host: `${name}.`, addresses: [address] }),
    clearAddress: (name) => post('/clear-a', { host: `${name}.` }),
  }
}
