import fc from 'fast-check'
import { mutualTlsSample } from '../harness/client_authorities.ts'
import { connectionLimitSample, ofModules } from '../harness/route_modules.ts'
import type { Kind } from './model.ts'

/** Stands in a generated body for an id that is known only when the command runs. */
export class Pick {
  readonly kind: Kind
  readonly from: 'living' | 'deleted' | 'foreign' | 'absent'
  readonly index: number
  constructor(kind: Kind, from: Pick['from'], index: number) {
    this.kind = kind
    this.from = from
    this.index = index
  }
  toString = () => `${this.kind}:${this.from}:${this.index}`
  toJSON = () => this.toString()
}
/** Stands for a hostport of this account and no other, or for one that another account has. */
export class Hostport {
  readonly label: string
  readonly port: number
  constructor(label: string, port: number) {
    this.label = label
    this.port = port
  }
  toJSON = () => `${this.label}:${this.port}`
}

const most = <T>(common: T, ...rare: T[]) =>
  fc.oneof(
    { weight: 12, arbitrary: fc.constant(common) },
    ...rare.map((value) => ({ weight: 1, arbitrary: fc.constant(value) })),
  )
export const pick = (kind: Kind): fc.Arbitrary<Pick> =>
  fc
    .tuple(most<Pick['from']>('living', 'deleted', 'foreign', 'absent'), fc.nat(9))
    .map(([from, index]) => new Pick(kind, from, index))

const annotations = {
  description: fc.constantFrom('one', 'two', '', null),
  metadata: fc.constantFrom('{"a":1}', 'ü', '', null),
}
/** Names that meet each other often. */
const word = fc.constantFrom('a', 'b', 'c')
const hostports = (port: number) =>
  fc.uniqueArray(
    most<string>('a', 'b', 'c', 'd', 'foreign').map((label) => new Hostport(label, port)),
    {
      maxLength: 2,
      selector: ({ label }) => label,
    },
  )
const cells = fc.constantFrom(null, ['default'], ['default'], ['elsewhere'])
const policyIds = fc.uniqueArray(pick('ip_policies'), { minLength: 1, maxLength: 2, selector: String })

/** A body may leave out what has a default. */
type Described = { least: object; shown: object; whole: object }
const settingsModule = ({ least, shown, whole }: Described) =>
  fc.record(
    {
      enabled: fc.boolean(),
      ...Object.fromEntries(
        Object.entries(shown).map(([field, value]) => [field, fc.constantFrom(value, Reflect.get(whole, field))]),
      ),
    } as Shape,
    { requiredKeys: Object.keys(least) },
  )
const headers = fc.record(
  {
    enabled: fc.boolean(),
    add: fc.dictionary(fc.constantFrom('X-A', 'x-b', '__proto__'), word),
    remove: fc.uniqueArray(word),
  },
  { requiredKeys: [] },
)
export const moduleBodies = {
  backend: fc.record({ enabled: fc.boolean(), backend_id: pick('backends') }, { requiredKeys: ['backend_id'] }),
  ip_restriction: fc.record({ enabled: fc.boolean(), ip_policy_ids: policyIds }, { requiredKeys: ['ip_policy_ids'] }),
  request_headers: headers,
  response_headers: headers,
  ...ofModules(settingsModule),
}
const inline = (bodies: Record<string, fc.Arbitrary<object>>): Shape =>
  Object.fromEntries(Object.entries(bodies).map(([name, body]) => [name, fc.option(body, { freq: 4 })]))
export const tcpModuleBodies = {
  backend: moduleBodies.backend,
  ip_restriction: moduleBodies.ip_restriction,
  rate_limit: settingsModule(connectionLimitSample),
}

export const httpsModuleBodies = {
  mutual_tls: fc.record(
    {
      enabled: fc.boolean(),
      certificate_authorities: fc.constantFrom(
        mutualTlsSample.least.certificate_authorities,
        mutualTlsSample.whole.certificate_authorities,
      ),
      mode: fc.constantFrom('required', 'optional'),
    },
    { requiredKeys: ['certificate_authorities'] },
  ),
}

type Shape = Record<string, fc.Arbitrary<unknown>>
const email = word.chain((name) => fc.constantFrom(`${name}@example.com`, `${name.toUpperCase()}@example.com`))
const cidr = fc.constantFrom('10.0.0.0/8', '10.0.0.1/32', '2001:db8::/32')
const match = { match_type: fc.constantFrom('exact_path', 'path_prefix'), match: fc.constantFrom('/', '/a', '/A') }

/** The fields of each kind: those that create needs, those that only create takes, and the rest. */
const fields: Record<Kind, { needed?: Shape; createOnly?: Shape; rest: Shape; updateOnly?: Shape }> = {
  api_keys: { createOnly: { owner_id: fc.oneof(pick('users'), pick('bot_users')) }, rest: annotations },
  users: {
    needed: { name: word, email },
    rest: { role: fc.constantFrom('admin', 'member') },
    updateOnly: { active: fc.boolean() },
  },
  bot_users: { needed: { name: word }, rest: { active: fc.boolean() } },
  ip_policies: { rest: annotations },
  ip_policy_rules: {
    needed: { cidr },
    createOnly: { ip_policy_id: pick('ip_policies'), action: fc.constantFrom('allow', 'deny') },
    rest: annotations,
  },
  ip_restrictions: {
    needed: { ip_policy_ids: policyIds },
    createOnly: { type: fc.constantFrom('dashboard', 'api', 'agent', 'endpoints') },
    rest: { enforced: fc.boolean(), ...annotations },
  },
  backends: {
    needed: { address: word.map((host) => `${host}.internal:80`) },
    rest: { tls: fc.record({ enabled: fc.boolean() }), ...annotations },
  },
  tcp_edges: { rest: { hostports: hostports(20_001), cells, ...inline(tcpModuleBodies), ...annotations } },
  https_edges: { rest: { hostports: hostports(443), cells, ...inline(httpsModuleBodies), ...annotations } },
  routes: {
    needed: match,
    rest: {
      ...inline(moduleBodies),
      ...annotations,
    },
  },
}
/** Fields that only create takes and needs. An API key's owner is the caller unless another is named. */
const alwaysSent = new Set(['ip_policy_id', 'action', 'type'])

export function createBody(kind: Kind): fc.Arbitrary<Record<string, unknown>> {
  const { needed = {}, createOnly = {}, rest } = fields[kind]
  const requiredKeys = [...Object.keys(needed), ...Object.keys(createOnly).filter((name) => alwaysSent.has(name))]
  return fc.record({ ...needed, ...createOnly, ...rest }, { requiredKeys })
}
export function updateBody(kind: Kind): fc.Arbitrary<Record<string, unknown>> {
  const { needed = {}, rest, updateOnly = {} } = fields[kind]
  return fc.record({ ...needed, ...rest, ...updateOnly }, { requiredKeys: [] })
}
