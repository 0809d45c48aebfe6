// The reference architecture of docs/operate/high-availability.md, from the files in deploy/high-availability, on machines of
// machines.ts: three for data, two for the control plane, two edge nodes.
import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import { makeCertificate } from '../../dev/edge.ts'
import { type NewCertificate, newCertificate } from '../harness/certificates.ts'
import { type Machine, makeMachine, makeNetwork, makeService, type Service } from './machines.ts'
import { poll } from './wait.ts'

const root = new URL('../..', import.meta.url).pathname
const program = join(root, '.program/main.js')
const file = (name: string) => readFileSync(join(root, 'deploy/high-availability', name), 'utf8')

const addresses = {
  'data-1': '10.97.0.11',
  'data-2': '10.97.0.12',
  'data-3': '10.97.0.13',
  'control-1': '10.97.0.21',
  'control-2': '10.97.0.22',
  'edge-1': '10.97.0.31',
  'edge-2': '10.97.0.32',
} as const
export type Name = keyof typeof addresses
export const shared = '10.97.0.100'
export const databases = ['data-1', 'data-2'] as const
export type Database = (typeof databases)[number]
const port = '5432'

export type Cluster = {
  folder: string
  machines: Record<Name, Machine>
  services: Service[]
  service: (machine: Name, name: string) => Service
  token: string
  /** Id of the token's account. */
  account: string
  /** The address of the drill, where webhooks may be sent, and a certificate for it that control planes trust. */
  receiver: NewCertificate & { address: string }
  /** Runs a command as the owner of the database. */
  command: (...args: string[]) => string
  /** Superuser connection past the network, over the socket of the machine; undefined if nothing answers. */
  onSocket: (name: Database, limitMs?: number, database?: string) => Promise<pg.Client | undefined>
  /** The machine whose PostgreSQL accepts changes, by its own word. */
  primary: () => Promise<Database | undefined>
  hasStandby: () => Promise<boolean>
  stop: () => Promise<void>
}

const asName = (text: string, name: string) =>
  text.replaceAll(/(?<=^ *(?:name|server_name|connect_address): )data-1/gm, name)

/** Machines find each other by name, as in /etc/hosts of each. Only this drill's mount namespace sees it. */
function writeHosts(folder: string): void {
  const hosts = Object.entries(addresses).map(([name, address]) => `${address} ${name}\n`)
  writeFileSync(join(folder, 'hosts'), `127.0.0.1 localhost\n${hosts.join('')}${shared} api.example\n`)
  execFileSync('mount', ['--bind', join(folder, 'hosts'), '/etc/hosts'])
}

function folderFor(folder: string, name: string, user = 'root'): string {
  const path = join(folder, name)
  mkdirSync(path, { recursive: true })
  if (user !== 'root') execFileSync('chown', [`${user}:`, path])
  chmodSync(path, user === 'postgres' ? 0o700 : 0o755)
  return path
}

function etcd(folder: string, machine: Machine): Service {
  const text = file('etcd.env').replace(/^ETCD_NAME.*[\s\S]*?(?=^ETCD_INITIAL_CLUSTER=)/m, (own) =>
    own.replaceAll('data-1', machine.name),
  )
  const env = Object.fromEntries([...text.matchAll(/^(ETCD_\w+)=(.*)$/gm)].map(([, name, value]) => [name, value]))
  const data = {
    ETCD_DATA_DIR: folderFor(folder, `etcd-${machine.name}`),
    ETCD_LOGGER: 'zap',
    ETCD_LOG_OUTPUTS: 'stderr',
  }
  // Machines here have one disk and two processors between them.
  return makeService(machine, 'etcd', ['etcd'], { folder, env: { ...env, ...data, ETCD_UNSUPPORTED_ARCH: '' } })
}

function patroni(folder: string, machine: Machine, parameters: string): Service {
  const data = folderFor(folder, `postgres-${machine.name}`, 'postgres')
  const socket = folderFor(folder, `socket-${machine.name}`, 'postgres')
  const text = asName(file('patroni.yml'), machine.name)
    .replace('/var/lib/postgresql/15/gatehouse', join(data, 'data'))
    .replace('mode: automatic', "mode: 'off'")
    .replace('local all postgres peer', 'local all postgres trust')
    .replace('    - data-checksums\n', '    - data-checksums\n    - no-sync\n')
    .replace(/^( +)max_connections: /m, (line, space) => `${parameters.replaceAll(/^/gm, space)}\n${line}`)
    .replace('bin_dir:', `parameters: { unix_socket_directories: '${socket}' }\n  bin_dir:`)
  const config = join(folder, `patroni-${machine.name}.yml`)
  writeFileSync(config, text)
  chmodSync(config, 0o644)
  return makeService(machine, 'patroni', ['patroni', config], { folder, user: 'postgres' })
}

const natsPasswords = {
  GATEHOUSE_NATS_CONTROL_PLANE_PASSWORD: 'control-plane',
  GATEHOUSE_NATS_EDGE_1_PASSWORD: 'edge-1',
  GATEHOUSE_NATS_EDGE_2_PASSWORD: 'edge-2',
}

function nats(folder: string, machine: Machine): Service {
  const permissions = readFileSync(join(root, 'deploy/nats/authorization.conf'), 'utf8')
  const [block = ''] = /^ {2}edge-1 \{$[\s\S]*?^ {2}\}$/m.exec(permissions) ?? []
  const second = block.replaceAll('edge-1', 'edge-2').replaceAll('EDGE_1', 'EDGE_2')
  const authorization = join(folder, 'authorization.conf')
  writeFileSync(authorization, permissions.replace(block, `${block}\n${second}`))
  const text = asName(file('nats.conf'), machine.name).replace(
    '/var/lib/gatehouse-nats',
    folderFor(folder, `nats-${machine.name}`),
  )
  const config = join(folder, `nats-${machine.name}.conf`)
  writeFileSync(config, `${text}include "./authorization.conf"\n`)
  return makeService(machine, 'nats', ['nats-server', '-c', config], { folder, env: natsPasswords })
}

function proxy(folder: string, machine: Machine): Service[] {
  const pem = join(folder, 'api.pem')
  if (machine.name === 'control-1') makeCertificate(pem, 'api.example')
  const config = join(folder, `haproxy-${machine.name}.cfg`)
  writeFileSync(
    config,
    `global\n    maxconn 2000\n${file('haproxy.cfg').replace('/etc/ssl/gatehouse/gatehouse.pem', pem)}`,
  )
  const own = join(folder, `keepalived-${machine.name}`)
  writeFileSync(
    `${own}.conf`,
    file('keepalived.conf').replace('priority 110', `priority ${machine.name === 'control-1' ? 110 : 100}`),
  )
  const pidFiles = ['-p', `${own}.pid`, '-r', `${own}-vrrp.pid`, '-c', `${own}-check.pid`]
  return [
    makeService(machine, 'haproxy', ['haproxy', '-db', '-f', config], { folder }),
    makeService(machine, 'keepalived', ['keepalived', '-n', '-l', '-f', `${own}.conf`, ...pidFiles], { folder }),
  ]
}

const drillAddress = '10.97.0.1'
/** V8 would let its space for new objects grow up to 128 MiB, over half an hour: until then everything seems to leak. */
const collectable = {
  NODE_OPTIONS: `--max-semi-space-size=4 --import=${join(import.meta.dirname, 'collect_garbage.ts')}`,
}

const passwordOf = { gatehouse_owner: 'PASSWORD-5', gatehouse_app: 'PASSWORD-4' }

function controlPlaneEnvironment(folder: string, address: string, role: keyof typeof passwordOf = 'gatehouse_app') {
  const text = file('gatehouse.env').replace('10.97.0.21:8080', `${address}:8080`)
  const env = Object.fromEntries([...text.matchAll(/^(GATEHOUSE_\w+)=(.*)$/gm)].map(([, name, value]) => [name, value]))
  const url = file('database-url')
    .trim()
    .replace(/\/\/[^@]*@/, `//${role}:${passwordOf[role]}@`)
  return {
    ...env,
    GATEHOUSE_DATABASE_URL: url,
    GATEHOUSE_NATS_USER: 'control-plane',
    GATEHOUSE_NATS_PASSWORD: 'control-plane',
    GATEHOUSE_SECRETS_KEY_FILE: join(folder, 'secrets.key'),
    // The load is many times that of an installation of this size, from one address and with one key.
    GATEHOUSE_REQUESTS_PER_MINUTE: '0',
    GATEHOUSE_DOMAIN_OWNERSHIP: 'trusted',
    GATEHOUSE_TCP_PORTS: '20000-20009',
    GATEHOUSE_WEBHOOK_ALLOW: drillAddress,
    NODE_EXTRA_CA_CERTS: join(folder, 'receiver.pem'),
    ...collectable,
  }
}

function edge(folder: string, machine: Machine, signingKey: string): Service {
  const home = folderFor(folder, `${machine.name}-state`)
  const certificates = folderFor(home, 'certificates')
  makeCertificate(join(certificates, 'default.pem'), 'app.example')
  const env = {
    GATEHOUSE_NATS_URL: 'nats://data-1:4222,nats://data-2:4222,nats://data-3:4222',
    GATEHOUSE_NATS_USER: machine.name,
    GATEHOUSE_NATS_PASSWORD: machine.name,
    GATEHOUSE_EDGE_NODE: machine.name,
    GATEHOUSE_EDGE_TRUSTED_KEYS: signingKey,
    GATEHOUSE_EDGE_FOLDER: home,
    GATEHOUSE_EDGE_RUNTIME_FOLDER: folderFor(folder, `${machine.name}-run`),
    GATEHOUSE_EDGE_CERTIFICATES: certificates,
    GATEHOUSE_EDGE_TCP_ADDRESSES: machine.address,
    GATEHOUSE_TCP_PORTS: '20000-20009',
    GATEHOUSE_EDGE_HTTPS_LISTEN: `${machine.address}:443`,
    // For the load balancer in front of both.
    GATEHOUSE_EDGE_STATUS_LISTEN: `${machine.address}:8081`,
    GATEHOUSE_EDGE_MAX_CONNECTIONS: '1000',
    GATEHOUSE_EDGE_DRAIN_DELAY_SECONDS: '3',
    GATEHOUSE_EDGE_DRAIN_DEADLINE_SECONDS: '5',
    ...collectable,
  }
  return makeService(machine, 'edge', [process.execPath, program, 'edge'], { folder, env })
}

function socketOf(folder: string) {
  return async (name: Database, limitMs = 2_000, database = 'postgres'): Promise<pg.Client | undefined> => {
    const host = join(folder, `socket-${name}`)
    const client = new pg.Client({
      host,
      port: Number(port),
      user: 'postgres',
      database,
      connectionTimeoutMillis: limitMs,
      query_timeout: limitMs,
    })
    client.on('error', () => {})
    try {
      await client.connect()
      return client
    } catch {
      const { stream } = (client as unknown as { connection: { stream: { destroy(): void } } }).connection
      stream.destroy()
      return undefined
    }
  }
}

async function createDatabase(onSocket: Cluster['onSocket'], primary: Database): Promise<void> {
  const admin = await onSocket(primary, 10_000)
  if (!admin) throw new Error('the new primary does not answer')
  for (const [role, password] of Object.entries(passwordOf))
    await admin.query(`create role ${role} login password '${password}'`)
  await admin.query('create database gatehouse owner gatehouse_owner')
  await admin.query('create table probes (node text not null, number int not null, primary key (node, number))')
  await admin.end()
}

export async function startCluster(folder: string): Promise<Cluster> {
  makeNetwork()
  writeHosts(folder)
  const machines = Object.fromEntries(
    Object.entries(addresses).map(([name, address]) => [name, makeMachine(name, address)]),
  ) as Cluster['machines']
  const data = ['data-1', 'data-2', 'data-3'] as const
  const services = data.flatMap((name) => [etcd(folder, machines[name]), nats(folder, machines[name])])
  for (const name of databases) services.push(patroni(folder, machines[name], 'max_wal_size: 256MB'))
  for (const service of services) service.start()
  const onSocket = socketOf(folder)
  const ask = async <Value>(name: Database, statement: string): Promise<Value | undefined> => {
    const client = await onSocket(name)
    const rows = await client?.query(statement).then(
      (result) => result.rows,
      () => undefined,
    )
    void client?.end().catch(() => {})
    return rows?.[0]?.value
  }
  const primary = async () => {
    const answers = await Promise.all(
      databases.map((name) => ask<boolean>(name, 'select pg_is_in_recovery() as value')),
    )
    return databases.find((_, at) => answers[at] === false)
  }
  const hasStandby = async () => {
    const name = await primary()
    const sync = `select count(*)::int as value from pg_stat_replication where sync_state = 'sync' and state = 'streaming'`
    return name !== undefined && ((await ask<number>(name, sync)) ?? 0) > 0
  }
  const first = await poll(primary, Boolean, { withinSeconds: 120, everyMs: 500 })
  await poll(hasStandby, Boolean, { withinSeconds: 120, everyMs: 500 })
  await createDatabase(onSocket, first as Database)
  writeFileSync(join(folder, 'secrets.key'), `${Buffer.alloc(32, 'a key for the drill').toString('base64')}\n`, {
    mode: 0o600,
  })
  const receiver = { address: drillAddress, ...newCertificate([drillAddress]) }
  writeFileSync(join(folder, 'receiver.pem'), receiver.certificate_pem)
  const control = ['control-1', 'control-2'] as const
  const owner = {
    ...controlPlaneEnvironment(folder, addresses['control-1'], 'gatehouse_owner'),
    GATEHOUSE_DATABASE_APP_ROLE: 'gatehouse_app',
  }
  const command = (...args: string[]) =>
    execFileSync('nsenter', ['--net=/run/netns/control-1', process.execPath, program, ...args], {
      env: { PATH: process.env.PATH, ...owner },
      encoding: 'utf8',
    })
  command('migrate')
  const { token, account_id: account, signing_key } = JSON.parse(command('bootstrap'))
  for (const name of control) {
    const env = controlPlaneEnvironment(folder, addresses[name])
    services.push(makeService(machines[name], 'serve', [process.execPath, program, 'serve'], { folder, env }))
    services.push(...proxy(folder, machines[name]))
  }
  for (const name of ['edge-1', 'edge-2'] as const) services.push(edge(folder, machines[name], signing_key))
  for (const service of services) service.start()
  const service = (machine: Name, name: string): Service => {
    const found = services.find((each) => each.machine.name === machine && each.name === name)
    if (!found) throw new Error(`there is no ${name} on ${machine}`)
    return found
  }
  return {
    folder,
    machines,
    services,
    service,
    token,
    account,
    receiver,
    command,
    onSocket,
    primary,
    hasStandby,
    async stop() {
      for (const machine of Object.values(machines)) machine.signal('SIGCONT')
      await Promise.all(services.map((each) => each.stop('SIGKILL').catch(() => {})))
      for (const machine of Object.values(machines)) machine.signal('SIGKILL')
    },
  }
}
