import { routeModuleNames } from '../../src/distribution/route_modules.ts'
import type { seededRandom } from '../deciders/cases.ts'
import type { Sample } from './samples.ts'

type Random = ReturnType<typeof seededRandom>
type Parent = Record<string | number, unknown>
type Path = readonly (string | number)[]

/** `unknown` adds a field, `missing` takes one away; all others stand in the place of a value. */
const wrongs = {
  missing: undefined,
  unknown: 1,
  null: null,
  blank: '',
  space: ' ',
  newline: '\n',
  nul: '\0',
  surrogate: '\ud800',
  accent: 'é',
  format: '%[src]',
  path: '../../etc/passwd',
  prototype: '__proto__',
  huge: 'x'.repeat(140_000),
  zero: 0,
  negative: -1,
  fraction: 1.5,
  largest: Number.MAX_SAFE_INTEGER,
  immense: 1e308,
  true: true,
  false: false,
  list: [],
  nested: [[]],
  nulls: [null, null],
  'long list': Array.from({ length: 10_001 }, () => 'x'),
  object: {},
  constructor: { constructor: { prototype: null } },
  'own prototype': JSON.parse('{"__proto__":{"host":"a"}}'),
}
export type Wrong = keyof typeof wrongs
const wrongNames = Object.keys(wrongs) as Wrong[]
/** To sign and to read a large record takes a hundred times as long. */
const shortNames = wrongNames.filter((wrong) => wrong !== 'huge' && wrong !== 'long list')
export type Mutation = { path: Path; wrong: Wrong }

const text = ['blank', 'format', 'path', 'prototype'] as const
const anyText = [...text, 'space', 'newline', 'surrogate', 'accent'] as const
const flag = ['true', 'false'] as const
const mayGo = ['missing'] as const
const listed = ['list'] as const

/** What may stand in a field after all; every other mutation must be refused. Elements of lists are written as `*`. */
const sound: Record<string, readonly Wrong[]> = {
  // A deletion.
  ...Object.fromEntries(
    ['tcp', 'https', 'route', 'backend', 'weighted', 'failover', 'response', 'policy', 'restrictions']
      .concat('certificate', 'recipient', 'challenge', 'mutual_tls', 'cell_nodes')
      .map((kind) => [`${kind}.value`, ['null']]),
  ),
  'tcp.value.hostports': listed,
  'tcp.value.hostports.*': mayGo,
  'tcp.value.backend': ['null'],
  'tcp.value.policies': ['null'],
  'tcp.value.policies_mode': mayGo,
  'tcp.value.rate_limit': mayGo,
  'tcp.value.rate_limit.scope': mayGo,
  'route.value.rate_limit.scope': mayGo,
  'mutual_tls.value.hostports': listed,
  'mutual_tls.value.hostports.*': mayGo,
  'https.value.hostports': listed,
  'https.value.hostports.*': mayGo,
  'route.value.backend': ['null'],
  'route.value.policies': ['null'],
  'route.value.policies_mode': mayGo,
  'route.value.headers': ['null'],
  'route.value.response_headers': mayGo,
  ...Object.fromEntries(routeModuleNames.map((name) => [`route.value.${name}`, mayGo])),
  ...Object.fromEntries(
    ['allow', 'deny'].flatMap((list) => [
      [`route.value.methods.${list}`, listed],
      [`route.value.methods.${list}.*`, mayGo],
      [`route.value.user_agent_filter.${list}`, listed],
      [`route.value.user_agent_filter.${list}.*`, ['missing', 'format', 'path', 'prototype', 'space']],
    ]),
  ),
  'route.value.cors.allowed_origins.*': mayGo,
  'route.value.cors.allowed_methods.*': mayGo,
  'route.value.cors.allowed_methods': listed,
  'route.value.cors.allowed_headers': listed,
  'route.value.cors.exposed_headers': listed,
  'route.value.cors.allowed_headers.*': ['missing', 'prototype'],
  'route.value.cors.exposed_headers.*': ['missing', 'prototype'],
  'route.value.cors.max_age_seconds': ['zero'],
  'route.value.cors.allow_credentials': flag,
  'route.value.redirect.keep_path': flag,
  'route.value.redirect.keep_query': flag,
  ...Object.fromEntries(
    ['strip_prefix', 'add_prefix', 'host'].map((name) => [`route.value.rewrite.${name}`, ['null']]),
  ),
  ...Object.fromEntries(
    ['route.value.headers', 'route.value.response_headers'].flatMap((list) => [
      [`${list}.add`, listed],
      [`${list}.add.*`, mayGo],
      [`${list}.add.*.0`, ['prototype']],
      [`${list}.add.*.1`, text],
      [`${list}.remove`, listed],
      [`${list}.remove.*`, ['missing', 'prototype']],
    ]),
  ),
  'route.value.encoded_slashes': mayGo,
  'route.value.path_variants': mayGo,
  'route.value.websocket': ['missing', 'false'],
  'route.value.timeouts': ['missing', 'object'],
  'route.value.timeouts.connect_seconds': mayGo,
  'route.value.timeouts.response_seconds': mayGo,
  'route.value.timeouts.idle_seconds': mayGo,
  'backend.value.tls': flag,
  'backend.value.protocol': mayGo,
  'backend.value.send_proxy_protocol': ['missing', 'true'],
  'backend.value.health_check': mayGo,
  'weighted.value.backends.*.1': ['zero'],
  'failover.value.backends': listed,
  'failover.value.backends.*': mayGo,
  'failover.value.response': mayGo,
  'response.value.headers': listed,
  'response.value.headers.*': mayGo,
  'response.value.headers.*.0': ['prototype'],
  'response.value.headers.*.1': text,
  'response.value.body': [...text, 'space', 'newline', 'accent'],
  // Refused when the file is made of it.
  'policy.value.inline': ['blank'],
  'restrictions.value.sets': listed,
  'restrictions.value.sets.*': mayGo,
  'restrictions.value.sets.*.enforced': flag,
  'certificate.value.except': ['missing', 'list'],
  'certificate.value.except.*': mayGo,
  'recipient.value.node': [...anyText.filter((each) => each !== 'blank'), 'nul'],
  'challenge.value.token': ['prototype'],
}

/** What is beside the value is left out if it cannot be read, and the rest is applied. */
const isBeside = ([field]: Path): boolean => field === 'rules' || field === 'expiring'

export function isSound({ key }: Sample, { path, wrong }: Mutation): boolean {
  if (isBeside(path)) return true
  // Nodes look at what they know. A later version may say more beside the value.
  if (path.length === 0) return wrong === 'unknown'
  // A number behind another one is a place in a pair.
  const place = path.map((step, at) => (typeof step === 'number' && typeof path[at - 1] !== 'number' ? '*' : step))
  return sound[[key.split('.')[0], ...place].join('.')]?.includes(wrong) ?? false
}

/** Each field of a record with each wrong value. */
export const allMutations = (sample: Sample): Mutation[] =>
  pathsIn(sample).flatMap((path) =>
    wrongNames.filter((wrong) => isPossible(sample, { path, wrong })).map((wrong) => ({ path, wrong })),
  )

/** One to three of them, none inside another. */
export function someMutations(random: Random, paths: readonly Path[], sample: Sample): Mutation[] {
  const chosen: Mutation[] = []
  for (let left = 1 + random(3); left > 0; left--) {
    const mutation = { path: pick(random, paths), wrong: pick(random, random(50) ? shortNames : wrongNames) }
    const isApart = chosen.every(({ path }) => !isWithin(path, mutation.path) && !isWithin(mutation.path, path))
    if (isApart && isPossible(sample, mutation)) chosen.push(mutation)
  }
  return chosen
}
const pick = <Item>(random: Random, items: readonly Item[]): Item => items[random(items.length)] as Item
const isWithin = (inner: Path, outer: Path): boolean => outer.every((step, at) => inner[at] === step)

export function pathsIn(value: unknown, path: Path = []): Path[] {
  if (typeof value !== 'object' || value === null) return [path]
  const steps = Array.isArray(value) ? value.keys() : Object.keys(value)
  return [path, ...[...steps].flatMap((step) => pathsIn((value as Parent)[step], [...path, step]))]
}

function isPossible(sample: Sample, { path, wrong }: Mutation): boolean {
  if (wrong === 'missing') return path.length > 0
  if (wrong !== 'unknown') return true
  const value = valueAt(sample, path)
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
const valueAt = (value: unknown, path: Path): unknown => path.reduce((found, step) => (found as Parent)[step], value)

export function mutated(sample: Sample, mutations: readonly Mutation[]): unknown {
  const copy = { record: structuredClone<unknown>(sample) }
  // The last elements of a list first: those before them keep their places.
  for (const { path, wrong } of mutations.toSorted((a, b) => (String(a.path) < String(b.path) ? 1 : -1))) {
    const whole: Path = ['record', ...path]
    const parent = valueAt(copy, whole.slice(0, -1)) as Parent
    const last = whole.at(-1) as string
    if (wrong === 'unknown') (parent[last] as Parent).unexpected = wrongs.unknown
    else if (wrong !== 'missing') parent[last] = wrongs[wrong]
    else if (Array.isArray(parent)) parent.splice(Number(last), 1)
    else delete parent[last]
  }
  return copy.record
}
