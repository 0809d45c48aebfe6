import assert from 'node:assert/strict'
import { glob, readFile } from 'node:fs/promises'
import { dirname, join, normalize } from 'node:path'
import { test } from 'node:test'
import { functionsIn } from './harness/functions.ts'
import { cycleIn, importGraph, importsOf } from './harness/imports.ts'

const root = new URL('..', import.meta.url).pathname

/** The allowed imports between folders of src/, with reasons. Folders not listed are forbidden. */
const mayImport: Record<string, { folders: string[]; because: string }> = {
  kernel: { folders: [], because: 'the kernel is pure: the agent and the command line share it' },
  db: { folders: ['kernel'], because: 'the database layer knows neither requests nor resources' },
  identity: { folders: ['kernel', 'db'], because: 'who calls does not depend on what is called' },
  access: {
    folders: ['kernel', 'db', 'identity'],
    because: 'whether an address is refused is decided in one place, below HTTP and resources',
  },
  http: {
    folders: ['kernel', 'db', 'identity', 'access'],
    because: 'HTTP serves routes that it is given; it names none',
  },
  distribution: {
    folders: ['kernel'],
    because: 'both sides share the records: neither the database nor the proxy belongs there',
  },
  operations: {
    folders: ['kernel', 'db', 'identity', 'access', 'http', 'distribution'],
    because: 'operations are the same for every resource, so they know none',
  },
  health: {
    folders: ['kernel', 'db', 'http'],
    because: 'how a thing is follows from what is shown of it, from rows and from reports, and from nothing else',
  },
  resources: {
    folders: ['kernel', 'db', 'identity', 'access', 'http', 'distribution', 'operations', 'health'],
    because: 'resources must not know how they are started',
  },
  sign_in: {
    folders: ['kernel', 'db', 'identity', 'access', 'http', 'operations', 'resources'],
    because: 'signing in opens sessions of users: it knows them, and nothing knows it but the command that serves',
  },
  publisher: {
    folders: ['kernel', 'db', 'identity', 'access', 'distribution', 'operations', 'resources'],
    because: 'the publisher reads the database and sends records; it answers no requests',
  },
  fleet: {
    folders: ['kernel', 'db', 'identity', 'http', 'distribution', 'operations', 'publisher'],
    because: 'joining trades a token for a place in the fleet: nothing knows it but the commands',
  },
  alerts: {
    folders: ['kernel', 'db', 'health', 'operations', 'resources'],
    because: 'alerts follow from the health of things and leave audit events: how those are sent is not their business',
  },
  webhooks: {
    folders: ['kernel', 'db', 'identity', 'operations', 'resources'],
    because: 'webhooks read the audit and send it; they answer no requests',
  },
  acme: {
    folders: ['kernel', 'db', 'identity', 'distribution', 'operations', 'resources'],
    because: 'orders of certificates go on by themselves; they answer no requests',
  },
  backup: {
    folders: ['kernel', 'db'],
    because: 'a backup has all tables, and does not look into them',
  },
  tracing: {
    folders: ['http'],
    because: 'traces receive what HTTP knows of a call; only the command that serves knows them',
  },
  agent: { folders: ['kernel', 'distribution'], because: 'an edge node has no database, and must never need one' },
  cli: {
    folders: ['kernel'],
    because: 'the command line is a client of openapi.json: what it could reach inside, other clients could not',
  },
  terraform: {
    folders: ['kernel', 'cli'],
    because: 'the provider is a client of openapi.json, and calls the API as the command line does',
  },
  config: { folders: ['kernel'], because: 'the settings are read and checked before any other part exists' },
  commands: {
    folders: [
      'kernel',
      'config',
      'db',
      'identity',
      'access',
      'http',
      'distribution',
      'operations',
      'health',
      'resources',
      'publisher',
      'fleet',
      'sign_in',
      'alerts',
      'webhooks',
      'acme',
      'backup',
      'tracing',
      'agent',
    ],
    because: 'commands wire the parts together',
  },
  setup: {
    folders: ['kernel', 'config', 'db', 'distribution', 'publisher', 'commands', 'doctor'],
    because: 'setup runs the commands that an operator would run, and no command needs it',
  },
  doctor: {
    folders: ['kernel', 'config', 'db', 'http', 'distribution', 'publisher', 'fleet', 'agent', 'backup', 'commands'],
    because: 'doctor examines with the functions of the commands themselves, and no command needs it',
  },
  '.': {
    folders: ['kernel', 'config', 'db', 'access', 'commands', 'setup', 'doctor', 'cli', 'terraform'],
    because: 'main.ts and program.ts only choose the command',
  },
}
/** Packages that only one folder may use, so that each can be replaced in one place. */
const onlyIn: Record<string, string[]> = {
  pg: ['db'],
  fastify: ['http'],
  '@fastify/static': ['http'],
  'prom-client': ['http'],
  ajv: ['http'],
  pino: ['commands'],
  yaml: ['cli', 'sign_in'],
  'openid-client': ['sign_in'],
  jose: ['sign_in'],
  'get-east-asian-width': ['cli'],
  tldts: ['resources'],
  '@modelcontextprotocol/server': ['cli'],
  '@grpc/grpc-js': ['terraform'],
  '@grpc/proto-loader': ['terraform'],
  '@opentelemetry/api': ['tracing'],
  '@opentelemetry/sdk-trace': ['tracing'],
  '@opentelemetry/resources': ['tracing'],
  '@opentelemetry/exporter-trace-otlp-http': ['tracing'],
}

/** The folders that call the API, with the client that our users have. */
const usesClient = ['cli', 'terraform']

const folderOf = (file: string) => (file.split('/').length > 2 ? (file.split('/')[1] ?? '.') : '.')

export function faultsOf(file: string, source: string): string[] {
  const folder = folderOf(file)
  const rule = mayImport[folder]
  if (!rule) return [`${file}: the folder ${folder} has no rule in ${'test/architecture.test.ts'}`]
  return importsOf(source).flatMap((target) => {
    if (target.startsWith('node:')) return []
    if (!target.startsWith('.')) {
      const name = target.startsWith('@') ? target.split('/').slice(0, 2).join('/') : (target.split('/')[0] ?? '')
      if (folder === 'kernel') return [`${file} imports ${target}: ${rule.because}`]
      return onlyIn[name] && !onlyIn[name].includes(folder)
        ? [`${file} imports ${target}, which only ${onlyIn[name].join(', ')} may`]
        : []
    }
    const imported = normalize(join(dirname(file), target))
    if (imported.startsWith('clients/') && usesClient.includes(folder)) return []
    if (!imported.startsWith('src/')) return [`${file} imports ${imported}, outside src/`]
    const other = folderOf(imported)
    return other === folder || rule.folders.includes(other) ? [] : [`${file} imports ${imported}: ${rule.because}`]
  })
}

test('imports follow the table of folders', async () => {
  const files = (await Array.fromAsync(glob('src/**/*.ts', { cwd: root }))).filter((file) => !file.endsWith('.test.ts'))
  assert.ok(files.length > 20)
  const faults = await Promise.all(files.map(async (file) => faultsOf(file, await readFile(join(root, file), 'utf8'))))
  assert.deepEqual(faults.flat(), [])
})

/** Files of the agent that use the file system directly. Everything else goes through files.ts, where tests make it fail. */
const usesDisk: Record<string, string> = {
  'disk/files.ts': 'it is the way to the disk',
  'disk/node_key.ts': 'it checks the mode of the key',
  'haproxy/certificates.ts': "it reads and watches the operator's folder",
  'haproxy/config/config_file.ts': 'it reads its own configuration and our Lua file',
  'haproxy/process/process.ts': 'HAProxy gets the log file as its standard error',
  'requests/listen.ts': 'a socket',
  'upstreams/certificate_fault.ts': "it reads the operator's CA file",
  'upstreams/dns.ts': 'it reads resolv.conf',
}

test('the agent writes to its disk in one way, which tests can make fail', async () => {
  const direct: string[] = []
  for await (const file of glob('**/*.ts', { cwd: join(root, 'src/agent') })) {
    const imports = importsOf(await readFile(join(root, 'src/agent', file), 'utf8'))
    if (!file.endsWith('.test.ts') && imports.some((name) => /^node:fs\b/.test(name))) direct.push(file)
  }
  assert.deepEqual(direct.sort(), Object.keys(usesDisk).sort())
})

/**
 * What the simulation in test/simulation is in the place of: clocks, chance, timers, files, sockets, processes and NATS.
 * A part that reaches for one of these itself is a part that the simulation cannot decide about.
 */
const outside =
  /\b(?:Date\.now|Math\.random|setTimeout|setInterval|setImmediate|performance\.now|randomUUID|randomBytes|AbortSignal\.timeout|systemClock|systemTiming|jetstream\(|jetstreamManager|Kvm\(|createConnection|diskFiles)\b|new Date\(\)|from 'node:(?:fs|net|dns|dgram|tls|http|child_process|timers)\b|kernel\/(?:pause|jitter)\.ts'/
/** In these folders, only these files may: each is where the real one comes in, or has no part in the simulation yet. */
const rooms: Record<string, Record<string, string>> = {
  'src/distribution': {
    'nats_connection.ts': 'it connects to NATS',
    'bucket_api.ts': "it is the node's way to the buckets",
  },
  'src/publisher': {
    'bucket/bucket_server.ts': "it is the publisher's way to the buckets",
    'nodes/change_status.ts': 'requests that wait for the end of rollouts ask again after a second',
    'nodes/nodes.ts': 'not simulated: what nodes report',
    'nodes/tails.ts': 'not simulated: watching requests',
  },
  'src/agent': {
    'disk/files.ts': 'it is the way to the disk',
    'disk/record_log.ts': 'the disk is its default',
    'disk/policy_files.ts': 'the disk is its default',
    'disk/node_key.ts': 'it checks the mode of the key',
    'haproxy/apply.ts': 'it puts the real parts together',
    'haproxy/certificates.ts': "not simulated: the operator's certificates",
    'haproxy/config/config_file.ts': 'not simulated: the configuration',
    'haproxy/lines/rule_counts.ts': 'not simulated: counts of rules',
    'haproxy/process/process.ts': 'it starts HAProxy',
    'haproxy/process/runtime.ts': "it is the way to HAProxy's socket",
    'haproxy/process/version.ts': 'it asks HAProxy for its version',
    'reports/hits.ts': 'not simulated: counts of refusals',
    'reports/reporter.ts': 'not simulated: reports',
    'reports/rule_hits.ts': 'not simulated: counts of rules',
    'reports/traffic_counts.ts': 'not simulated: counts of traffic',
    'reports/status_server.ts': 'not simulated: it answers HTTP',
  },
}
/** Folders of the agent that have no part in the simulation. */
const notSimulated = ['access_log', 'metrics', 'requests', 'upstreams', 'haproxy/native']

export const usesOutside = (source: string): boolean => outside.test(source)

test('between the outbox and the proxy, only named files reach outside', async () => {
  for (const [folder, files] of Object.entries(rooms)) {
    const direct: string[] = []
    const exclude = notSimulated.map((name) => `${name}/**`)
    for await (const file of glob('**/*.ts', { cwd: join(root, folder), exclude }))
      if (!file.endsWith('.test.ts') && usesOutside(await readFile(join(root, folder, file), 'utf8'))) direct.push(file)
    assert.deepEqual(direct.sort(), Object.keys(files).sort(), folder)
  }
})

test('every way outside is found', () => {
  for (const source of [
    'const at = Date.now()',
    'const now = new Date()',
    'Math.random() < 0.5',
    'setTimeout(work, 5)',
    "import { setTimeout } from 'node:timers/promises'",
    "import { open } from 'node:fs/promises'",
    'const id = randomUUID()',
    "import { pause } from '../kernel/pause.ts'",
    "import { systemTiming } from '../kernel/system_timing.ts'\nconst t = systemTiming",
    'new Kvm(jetstream(nats))',
  ])
    assert.ok(usesOutside(source), source)
  assert.equal(usesOutside('await wait(timing, 50, signal)'), false)
})

test('the client is a package of its own, and works in browsers: it imports nothing of ours and nothing of Node', async () => {
  const files = await Array.fromAsync(glob('clients/typescript/src/**/*.ts', { cwd: root }))
  assert.ok(files.length > 5)
  for (const file of files)
    for (const target of importsOf(await readFile(join(root, file), 'utf8')))
      if (target !== 'openapi-fetch')
        assert.match(normalize(join(dirname(file), target)), /^clients\/typescript\/src\//, `${file} imports ${target}`)
})

test('the dashboard knows of our sources only the kernel and the client, and never the server', async () => {
  const files = await Array.fromAsync(glob('dashboard/src/**/*.{ts,tsx}', { cwd: root }))
  assert.ok(files.length > 20)
  for (const file of files) {
    for (const target of importsOf(await readFile(join(root, file), 'utf8')).filter((name) => name.startsWith('.'))) {
      const imported = normalize(join(dirname(file), target))
      assert.match(
        imported,
        /^(dashboard|clients\/typescript|src\/kernel)\//,
        `${file} imports ${imported}: it is a client of openapi.json`,
      )
    }
  }
})

for (const sources of ['{src,clients}/**/*.ts', '{dashboard,clients/typescript}/src/**/*.{ts,tsx}'])
  test(`no files of ${sources} import each other in a circle`, async () => {
    const graph = await importGraph(sources)
    assert.ok([...graph.values()].flat().filter((file) => graph.has(file)).length > 100)
    assert.equal(cycleIn(graph)?.join(' → '), undefined)
  })

const maxFilesInFolder = 25

test('no folder has more files than fit on a screen', async () => {
  const counts = new Map<string, number>()
  for await (const file of glob('src/**/*.ts', { cwd: root, exclude: ['src/**/*.test.ts'] }))
    counts.set(dirname(file), (counts.get(dirname(file)) ?? 0) + 1)
  assert.ok(counts.has('src/agent'))
  for (const [folder, count] of counts) assert.ok(count <= maxFilesInFolder, `${folder} holds ${count} files`)
})

test('a forbidden import is found in every form it can take', () => {
  const target = "'../http/server.ts'"
  for (const source of [
    `import { createServer } from ${target}`,
    `import type {\n  ServerOptions,\n} from ${target}`,
    `import ${target}`,
    `export * from ${target}`,
    `const late = await import(${target})`,
  ]) {
    assert.equal(faultsOf('src/kernel/ids.ts', source).length, 1, source)
  }
  assert.equal(faultsOf('src/resources/x/store.ts', "import pg from 'pg'").length, 1)
  assert.equal(faultsOf('src/kernel/ids.ts', "import 'fastify'").length, 1)
  assert.deepEqual(faultsOf('src/http/x.ts', "import { Refusal } from '../kernel/errors.ts'"), [])
})

test('files and functions stay small', async () => {
  const heads = ['{src,test,dev,bench}/**/*.ts', '{dashboard,clients/typescript}/src/**/*.{ts,tsx}']
  for await (const file of glob(heads, { cwd: root, exclude: ['{dashboard,clients/typescript}/src/generated/**'] })) {
    const lines = (await readFile(join(root, file), 'utf8')).split('\n').length
    assert.ok(lines <= 400, `${file} has ${lines} lines: it is about two things, split it`)
  }
})

const maxFunctionLines = 80

/** Functions that may be longer, by name, and why. There are none today; one that is short again must leave the list. */
const mayBeLonger: Record<string, string> = {}

test('no function is longer than a screen', async () => {
  const longOnes = new Set<string>()
  const exclude = ['src/**/*.test.ts', 'clients/typescript/src/generated/**']
  for await (const file of glob('{src,clients/typescript/src}/**/*.ts', { cwd: root, exclude }))
    for (const { name, lines } of functionsIn(await readFile(join(root, file), 'utf8')))
      if (lines > maxFunctionLines) {
        assert.ok(mayBeLonger[name], `${name} in ${file} has ${lines} lines: split it by what it does`)
        longOnes.add(name)
      }
  assert.deepEqual([...longOnes].sort(), Object.keys(mayBeLonger).sort(), 'an exception is no longer needed')
})

test('the length of a function is found in every form it can take', () => {
  for (const source of [
    'function long() {\n  one()\n\n  two()\n}',
    'export async function long<T>(\n  one: T,\n) {\n  two()\n}',
    'export const long = async (): Promise<void> => {\n  one()\n\n  two()\n}',
    'export const long = <T>(\n  one: T,\n): Two =>\n  two({\n  })',
    'const long = (one) =>\n  two(\n    one,\n    3,\n  )',
    'const parts = {\n  async long(one) {\n    two()\n\n    three()\n  },\n}',
    'const parts = {\n  long: async (one) => {\n    two()\n\n    three()\n  },\n}',
  ])
    assert.deepEqual(functionsIn(`${source}\n\nconst other = 1\n`), [{ name: 'long', lines: 5 }], source)
})

/** Tests wait with `poll`: a fixed time is too short on a busy machine and wasted on a quiet one. */
const mayUseTimers: Record<string, string> = {
  'src/commands/log.test.ts': 'is a process that goes on writing',
  'test/harness/poll.ts': 'the one place where tests wait',
  'test/harness/control_plane.ts': 'kills a process that does not end',
  'test/harness/edge.ts': 'gives up on a node that does not start',
  'test/harness/file_limit.ts': 'ends a test file that does not end',
  'test/harness/tcp_proxy.ts': 'is a network that takes its time',
  'test/input/framing.test.ts': 'is a client that sends a byte now and then',
  'test/outbox/rounds.ts': 'gives up on a reader that would wait forever',
}

test('tests wait by polling, not by time, and random choices can be repeated', async () => {
  const faults: string[] = []
  for await (const file of glob(['test/**/*.ts', 'src/**/*.test.ts'], { cwd: root, exclude: ['test/drills/**'] })) {
    const source = await readFile(join(root, file), 'utf8')
    if (file === 'test/architecture.test.ts') continue
    if (!mayUseTimers[file] && /(?<![.\w])set(?:Timeout|Interval)\(|timers\/promises/.test(source))
      faults.push(`${file} uses a timer: wait with poll() or holdsFor() from test/harness/poll.ts`)
    if (file !== 'test/harness/random.ts' && source.includes('Math.random'))
      faults.push(`${file} uses Math.random: use test/harness/random.ts, which prints its seed`)
  }
  assert.deepEqual(faults, [])
})

test('no value is forced into a type that it does not have', async () => {
  const heads = ['{src,test,dev,bench}/**/*.ts', 'dashboard/src/**/*.{ts,tsx}']
  for await (const file of glob(heads, { cwd: root, exclude: ['test/architecture.test.ts'] }))
    assert.doesNotMatch(await readFile(join(root, file), 'utf8'), /\bas never(?=[\s,;)\]}]*$|[,;)\]}])/m, file)
})
