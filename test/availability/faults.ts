// What breaks, and how it is mended. Each resolves when it has happened.

import { randomBelow } from '../harness/random.ts'
import { type Cluster, type Database, databases, type Name } from './cluster.ts'
import { pause, poll } from './wait.ts'

export const other = (name: Database): Database => (name === 'data-1' ? 'data-2' : 'data-1')

export async function primaryOf(cluster: Cluster): Promise<Database> {
  return (await poll(cluster.primary, Boolean, { withinSeconds: 120, everyMs: 250 })) as Database
}

export const untilStandby = (cluster: Cluster) =>
  poll(cluster.hasStandby, Boolean, { withinSeconds: 180, everyMs: 500 })

async function publisher(cluster: Cluster): Promise<Name> {
  const names = ['control-1', 'control-2'] as const
  const isActive = async (name: Name) => {
    const url = `http://${cluster.machines[name].address}:8080/metrics`
    const text = await fetch(url, { signal: AbortSignal.timeout(2_000) }).then(
      (answer) => answer.text(),
      () => '',
    )
    return /^gatehouse_publisher_active\S* 1$/m.test(text)
  }
  for (;;) {
    for (const name of names) if (await isActive(name)) return name
    await pause(100)
  }
}

/** kill -9, of everything that the reference architecture has. What is killed comes back by itself. */
export const kills: Record<string, (cluster: Cluster) => Promise<void>> = {
  async 'the primary PostgreSQL'(cluster) {
    cluster.machines[await primaryOf(cluster)].signal('SIGKILL', 'postgres')
  },
  async 'a control plane'({ service }) {
    service(randomBelow(2) ? 'control-1' : 'control-2', 'serve').kill()
  },
  async 'the process that publishes'(cluster) {
    cluster.service(await publisher(cluster), 'serve').kill()
  },
  async 'the standby PostgreSQL'(cluster) {
    cluster.machines[other(await primaryOf(cluster))].signal('SIGKILL', 'postgres')
  },
  async 'a NATS server'({ service }) {
    service((['data-1', 'data-2', 'data-3'] as const)[randomBelow(3)] as Name, 'nats').kill()
  },
  async 'all three NATS servers'({ service }) {
    for (const name of ['data-1', 'data-2', 'data-3'] as const) service(name, 'nats').kill()
  },
  async 'an agent'({ service }) {
    service(randomBelow(2) ? 'edge-1' : 'edge-2', 'edge').kill()
  },
  async 'HAProxy of an edge node'({ machines }) {
    machines[randomBelow(2) ? 'edge-1' : 'edge-2'].signal('SIGKILL', 'haproxy')
  },
  async 'HAProxy in front of the API'({ service }) {
    service(randomBelow(2) ? 'control-1' : 'control-2', 'haproxy').kill()
  },
  async 'an etcd server'({ service }) {
    service((['data-1', 'data-2', 'data-3'] as const)[randomBelow(3)] as Name, 'etcd').kill()
  },
  async 'Patroni of the primary'(cluster) {
    cluster.service(await primaryOf(cluster), 'patroni').kill()
  },
}

export async function powerOff(cluster: Cluster, name: Name): Promise<void> {
  const its = cluster.services.filter(({ machine }) => machine.name === name)
  const ending = its.map((service) => service.stop('SIGKILL'))
  cluster.machines[name].signal('SIGKILL')
  await Promise.all(ending)
  cluster.machines[name].signal('SIGKILL')
}

export function powerOn(cluster: Cluster, name: Name): void {
  for (const service of cluster.services) if (service.machine.name === name) service.start()
}

/** What happens to the machine of the primary, and what makes it well. */
type Fault = {
  begin: (cluster: Cluster, primary: Database) => Promise<void>
  end: (cluster: Cluster, primary: Database) => void
}
export const failovers: Record<string, Fault & { promotes: boolean }> = {
  'loses power': { promotes: true, begin: powerOff, end: powerOn },
  'is frozen': {
    promotes: true,
    begin: async ({ machines }, primary) => void machines[primary].signal('SIGSTOP'),
    end: ({ machines }, primary) => void machines[primary].signal('SIGCONT'),
  },
  'is cut off from everyone': {
    promotes: true,
    begin: async ({ machines }, primary) => machines[primary].cut(),
    end: ({ machines }, primary) => machines[primary].heal(),
  },
  'is cut off from its standby': {
    promotes: false,
    begin: async ({ machines }, primary) => machines[primary].cut([machines[other(primary)]]),
    end: ({ machines }, primary) => machines[primary].heal(),
  },
  'is cut off from etcd and the standby, and waits for the standby are canceled': {
    promotes: true,
    async begin(cluster, primary) {
      cluster.machines[primary].cut([cluster.machines[other(primary)], cluster.machines['data-3']])
      console.log(`   ${await cancelWaits(cluster, primary, 8_000)} waits for the standby were canceled`)
    },
    end: ({ machines }, primary) => machines[primary].heal(),
  },
}

async function cancelWaits(cluster: Cluster, primary: Database, forMs: number): Promise<number> {
  const statement = `select count(pg_cancel_backend(pid))::int as count from pg_stat_activity
                     where wait_event = 'SyncRep' and usename = 'gatehouse_app'`
  let count = 0
  for (const until = Date.now() + forMs; Date.now() < until; await pause(200)) {
    const client = await cluster.onSocket(primary)
    count += await (client?.query(statement).then(
      ({ rows }) => rows[0].count,
      () => 0,
    ) ?? 0)
    void client?.end().catch(() => {})
  }
  return count
}

/** Through the API of Patroni, as `patronictl edit-config` does. */
export async function configurePatroni(cluster: Cluster, settings: object): Promise<void> {
  await poll(
    async () => {
      for (const name of databases) {
        const url = `http://${cluster.machines[name].address}:8008/config`
        const options = { method: 'PATCH', body: JSON.stringify(settings), signal: AbortSignal.timeout(5_000) }
        if (
          await fetch(url, options).then(
            ({ ok }) => ok,
            () => false,
          )
        )
          return true
      }
      return false
    },
    Boolean,
    { everyMs: 500 },
  )
}
