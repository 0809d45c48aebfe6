import { existsSync } from 'node:fs'
import { dirname } from 'node:path'
import { type ImportGraph, reachableFrom } from './imports.ts'

const edge = 'test/harness/edge.ts'
const nats = 'test/harness/nats.ts'

/**
 * Which tests start a part of the program, for sources that no test imports because a process runs them. A file of the harness
 * stands for the tests that use it, anything else for the tests whose path begins with it.
 */
const startedBy: Record<string, readonly string[]> = {
  'src/access': ['test/specification/ip_', 'test/lockout', 'test/deciders', 'test/rule_counts', 'test/newly_refused'],
  'src/acme': ['test/harness/pebble.ts'],
  'src/agent': [edge, 'test/agent'],
  'src/backup': ['test/backup'],
  'src/cli': ['test/cli'],
  'src/config': ['test/commands', 'test/setup', 'test/docs.test'],
  'src/setup': ['test/setup'],
  'src/commands': ['test/commands', 'test/shutdown', 'test/upkeep', 'test/agent/agent.test'],
  'src/db': ['test/outbox', 'test/migrate_locks', 'test/partitions', 'test/round_trips', 'test/hostile/database_role'],
  'src/distribution': [edge, nats],
  'src/doctor': ['test/doctor'],
  'src/http': ['test/specification', 'test/openapi', 'test/input', 'test/error_bodies'],
  'src/identity': ['test/specification/authentication', 'test/specification/api_key', 'test/scopes', 'test/key_life'],
  'src/operations': ['test/specification', 'test/operations', 'test/round_trips'],
  'src/publisher': [edge, nats],
  'src/resources': ['test/specification', 'test/isolation'],
  'src/sign_in': ['test/sign_in'],
  'src/tracing': ['test/tracing'],
  'src/webhooks': ['test/webhooks'],
  'dashboard/src': ['test/dashboard'],
  src: ['test/commands'],
}

const isTest = (file: string) => file.endsWith('.test.ts')

/** The harness uses many sources to prepare things. That does not make its users tests of these sources. */
const withoutHarness = (graph: ImportGraph): ImportGraph =>
  new Map(
    [...graph].map(([file, imported]) => [
      file,
      file.startsWith('test/harness/') ? imported.filter((other) => !other.startsWith('src/')) : imported,
    ]),
  )

type Used = ReadonlyMap<string, ReadonlySet<string>>
const usedIn = new WeakMap<ImportGraph, Used>()

/** Each test with what it imports, directly or indirectly. Kept, because a test asks for the tests near every source. */
function usedByTests(graph: ImportGraph): Used {
  const known = usedIn.get(graph)
  if (known) return known
  const direct = withoutHarness(graph)
  const used = new Map([...graph.keys()].filter(isTest).map((test) => [test, reachableFrom(test, direct)]))
  usedIn.set(graph, used)
  return used
}

/** The tests that import a file, directly or indirectly, those beside it, and those that start the part it belongs to. */
export function testsNear(file: string, graph: ImportGraph): string[] {
  if (!existsSync(new URL(`../../${file}`, import.meta.url))) throw new Error(`there is no file ${file}`)
  const starters = Object.entries(startedBy).find(([folder]) => file.startsWith(`${folder}/`))?.[1] ?? []
  const isNear = ([test, used]: [string, ReadonlySet<string>]) =>
    used.has(file) ||
    dirname(test) === dirname(file) ||
    starters.some((starter) => (starter.startsWith('test/harness/') ? used.has(starter) : test.startsWith(starter)))
  return [...usedByTests(graph)].filter(isNear).map(([test]) => test)
}

/** What starts a control plane, and NATS, which is installed later than the fast tests run. */
const servers = ['test/harness/control_plane.ts', 'dev/nats.ts']

/**
 * The tests of `npm run check:fast`: those of the text and shape of the sources, of functions without a server, and of the
 * specification. None needs more than PostgreSQL.
 */
export function isFast(test: string, graph: ImportGraph): boolean {
  if (/^test\/(?:prose|architecture|near|openapi|specification)\b/.test(test)) return true
  if (!test.startsWith('src/')) return false
  const used = reachableFrom(test, graph)
  return !servers.some((server) => used.has(server))
}
