// What the processes and servers of the cluster use, measured from outside.
import { execFile } from 'node:child_process'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type Cluster, databases, type Name } from './cluster.ts'
import type { Series } from './trends.ts'
import { pause } from './wait.ts'

const run = promisify(execFile)
/** The name of the main thread in Node 24, and so of its process. */
const node = 'MainThread'
const watched: [Name, program: string, shown: string][] = [
  ...(['control-1', 'control-2'] as const).flatMap((name): [Name, string, string][] => [
    [name, node, 'serve'],
    [name, 'haproxy', 'HAProxy'],
  ]),
  ...(['edge-1', 'edge-2'] as const).flatMap((name): [Name, string, string][] => [
    [name, node, 'agent'],
    [name, 'haproxy', 'HAProxy'],
  ]),
  ...(['data-1', 'data-2', 'data-3'] as const).map((name): [Name, string, string] => [name, 'nats-server', 'NATS']),
  ...databases.map((name): [Name, string, string] => [name, 'postgres', 'PostgreSQL']),
]
const data = {
  NATS: ['nats-data-1', 'nats-data-2', 'nats-data-3'],
  PostgreSQL: ['postgres-data-1', 'postgres-data-2'],
}
/** Tables that keep rows of changes or requests; docs/reference/limits-and-retention.md says for how long. */
const kept: [RegExp, string][] = [
  [/^audit_events/, 'audit events are kept for months'],
  [/^outbox$/, 'pruned a day after it was sent'],
  [/^webhook_deliveries$/, 'deliveries are kept for 30 days'],
  [/^traffic_/, 'a row for each minute, for a day'],
  [
    /^(edge_request|ip_refusals|edge_counts|ip_restriction_counts|address_outcomes)/,
    'refused requests are kept for days',
  ],
  [/^reported_hit/, 'batches of hits are remembered for hours'],
]

export type Samples = {
  series: Map<string, Series>
  add: (name: string, unit: Series['unit'], value: number, mayGrow?: string) => void
  take: () => Promise<void>
}

export function newSamples(cluster: Cluster): Samples {
  const series = new Map<string, Series>()
  const add: Samples['add'] = (name, unit, value, mayGrow) => {
    const found = series.get(name) ?? { name, unit, values: [], ...(mayGrow && { mayGrow }) }
    found.values.push(value)
    series.set(name, found)
  }
  const addProcess = async ([name, program, shown]: (typeof watched)[number], pids: readonly number[]) => {
    const sum = { memory: 0, descriptors: 0, threads: 0 }
    for (const pid of pids) {
      // It may have ended in between.
      const read = (file: string) => readFile(`/proc/${pid}/${file}`, 'utf8').catch(() => '')
      if ((await read('comm')).trim() !== program) continue
      const status = await read('status')
      const field = (key: string) => Number(new RegExp(`^${key}:\\s+(\\d+)`, 'm').exec(status)?.[1] ?? 0)
      // Mapped files and shared memory are not the memory of one process.
      sum.memory += field('RssAnon') / 1024
      sum.threads += field('Threads')
      sum.descriptors += await readdir(`/proc/${pid}/fd`).then(
        ({ length }) => length,
        () => 0,
      )
    }
    add(`${name} ${shown}: memory`, 'MiB', sum.memory)
    const filesOfBackends = program === 'postgres' ? 'each connection keeps up to 1,000 files open' : undefined
    add(`${name} ${shown}: descriptors`, 'count', sum.descriptors, filesOfBackends)
    add(`${name} ${shown}: threads`, 'count', sum.threads)
  }
  const take = async () => {
    for (const name of ['control-1', 'control-2', 'edge-1', 'edge-2'] as const)
      cluster.machines[name].signal('SIGUSR2', node)
    await pause(2_000)
    for (const machine of Object.values(cluster.machines)) {
      const { stdout } = await run('ip', ['netns', 'pids', machine.name])
      const pids = stdout.trim().split('\n').map(Number)
      for (const each of watched) if (each[0] === machine.name) await addProcess(each, pids)
    }
    for (const [shown, folders] of Object.entries(data)) {
      // Files that are deleted meanwhile make it fail.
      const command = [
        '-c',
        'du -sk "$@" 2>/dev/null; true',
        'sh',
        ...folders.map((each) => join(cluster.folder, each)),
      ]
      const { stdout } = await run('sh', command)
      const sizes = stdout
        .trim()
        .split('\n')
        .map((line) => Number.parseInt(line, 10) / 1024)
      add(
        `${shown}: disk of all servers`,
        'MiB',
        sizes.reduce((sum, size) => sum + size, 0),
        shown === 'PostgreSQL' ? 'the tables below and the write-ahead log' : undefined,
      )
    }
    await database(cluster, add)
  }
  return { series, add, take }
}

async function database(cluster: Cluster, add: Samples['add']): Promise<void> {
  const name = await cluster.primary()
  const client = name && (await cluster.onSocket(name, 10_000, 'gatehouse'))
  if (!client) throw new Error('there is no primary')
  try {
    const { rows: connections } = await client.query(
      `select count(*)::int as count from pg_stat_activity where datname = 'gatehouse' and pid <> pg_backend_pid()`,
    )
    add('PostgreSQL: connections', 'count', connections[0].count)
    const { rows: tables } = await client.query(
      `select relname as name, pg_total_relation_size(oid) / 1048576.0 as size
       from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace`,
    )
    for (const { name, size } of tables)
      add(`table ${name}`, 'MiB', Number(size), kept.find(([pattern]) => pattern.test(name))?.[1])
  } finally {
    await client.end()
  }
}
