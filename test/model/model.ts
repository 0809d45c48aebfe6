import { mutualTlsSample } from '../harness/client_authorities.ts'
import { connectionLimitSample, moduleSamples, ofModules } from '../harness/route_modules.ts'
/**
 * What the API does, without how: an account as a map of things, and for each kind the rules of what may be written and
 * deleted. It knows only well-formed bodies; what is refused for its form is tested elsewhere.
 */
export type Kind =
  | 'api_keys'
  | 'users'
  | 'bot_users'
  | 'ip_policies'
  | 'ip_policy_rules'
  | 'ip_restrictions'
  | 'backends'
  | 'tcp_edges'
  | 'https_edges'
  | 'routes'
export type Fields = Record<string, unknown>
export type Thing = { kind: Kind; id: string; shown: Fields; above?: Thing; isCaller?: true }

export class Refused {
  readonly status: number
  readonly code: string
  readonly field?: string
  constructor(status: number, code: string, field?: string) {
    this.status = status
    this.code = code
    this.field = field
  }
}
const notFound = () => new Refused(404, 'ERR_NOT_FOUND')
const invalid = (field: string) => new Refused(400, 'ERR_INVALID_FIELD', field)

export class Model {
  readonly living = new Map<string, Thing>()
  readonly deleted: Thing[] = []
  /** Hostports that edges of other accounts have. */
  readonly takenElsewhere: ReadonlySet<string>
  readonly callerId: string
  readonly callerKeyId: string
  readonly publicUrl: string

  constructor(world: {
    takenElsewhere: ReadonlySet<string>
    callerId: string
    callerKeyId: string
    publicUrl: string
  }) {
    this.takenElsewhere = world.takenElsewhere
    this.callerId = world.callerId
    this.callerKeyId = world.callerKeyId
    this.publicUrl = world.publicUrl
  }

  /** From the newest to the oldest, as lists show them. */
  all(kind: Kind, above?: Thing): Thing[] {
    return [...this.living.values()]
      .filter((thing) => thing.kind === kind && (!above || thing.above === above))
      .reverse()
  }
  find(kind: Kind, id: string, above?: Thing): Thing {
    const thing = this.living.get(id)
    if (thing?.kind !== kind || thing.above !== above) throw notFound()
    return thing
  }
  /** What a field of a body refers to, as responses show it. */
  ref(kind: Kind, id: string, field: string): Fields {
    if (this.living.get(id)?.kind !== kind) throw invalid(field)
    return { id, uri: `${this.publicUrl}${kinds[kind].path()}/${id}` }
  }

  pathOf({ kind, id, above }: Thing): string {
    return `${kinds[kind].path(above?.id)}/${id}`
  }
  view(thing: Thing): Fields {
    const { id, kind, shown, above } = thing
    return {
      ...(above && { edge_id: above.id }),
      id,
      uri: this.publicUrl + this.pathOf(thing),
      ...shown,
      ...(kind === 'https_edges' && { routes: this.all('routes', thing).map((route) => this.view(route)) }),
    }
  }

  /** What the API shows after a create or an update; the caller then gives the thing its id. */
  write(kind: Kind, sent: Fields, before?: Thing, above?: Thing): Fields {
    const { write } = kinds[kind]
    return withoutUndefined(write({ model: this, sent, before, above, old: before?.shown ?? {} }))
  }
  delete(thing: Thing): void {
    const { inUse, takesAlong } = kinds[thing.kind]
    const others = [...this.living.values()].filter((other) => other !== thing)
    const alongWithIt = others.filter((other) => takesAlong?.(other, thing))
    const users = others.filter((other) => refersTo(other, thing) && !alongWithIt.includes(other))
    if (inUse && users.length) throw new Refused(409, inUse)
    for (const gone of [...alongWithIt, thing]) this.bury(gone)
  }
  private bury(thing: Thing): void {
    this.living.delete(thing.id)
    this.deleted.push(thing)
  }

  writeModule(name: ModuleName, sent: Fields, prefix = ''): Fields {
    return { enabled: sent.enabled ?? true, ...modules[name](this, sent, prefix) }
  }
}

type Writing = { model: Model; sent: Fields; old: Fields; before?: Thing; above?: Thing }
type Rules = {
  path: (aboveId?: string) => string
  /** The name of the list, for what has one. */
  list?: string
  write: (writing: Writing) => Fields
  /** The refusal of a delete while anything refers to it. */
  inUse?: string
  /** What goes with it when it is deleted. */
  takesAlong?: (other: Thing, gone: Thing) => boolean
}

export type ModuleName = keyof typeof modules
const headers = (_: Model, { add = {}, remove = [] }: Fields, _prefix: string) => ({ add, remove })
const modules = {
  backend: (model: Model, sent: Fields, prefix: string) => ({
    backend_id: sent.backend_id,
    backend: model.ref('backends', sent.backend_id as string, `${prefix}backend_id`),
  }),
  ip_restriction: (model: Model, sent: Fields, prefix: string) => ({
    mode: 'enforce',
    ip_policy_ids: sent.ip_policy_ids,
    ip_policies: (sent.ip_policy_ids as string[]).map((id, index) =>
      model.ref('ip_policies', id, `${prefix}ip_policy_ids[${index}]`),
    ),
  }),
  request_headers: headers,
  response_headers: headers,
  ...ofModules(
    ({ shown }) =>
      (_: Model, { enabled: _enabled, ...sent }: Fields, _prefix: string): Fields => ({ ...shown, ...sent }),
  ),
  rate_limit: (_: Model, { enabled: _enabled, ...sent }: Fields, _prefix: string): Fields => ({
    ...('connections' in sent ? connectionLimitSample : moduleSamples.rate_limit).shown,
    ...sent,
  }),
  mutual_tls: (_: Model, { enabled: _enabled, ...sent }: Fields, _prefix: string): Fields =>
    mutualTlsSample.shownOf(sent as Parameters<typeof mutualTlsSample.shownOf>[0]),
}
export const modulesOf = {
  https_edges: ['mutual_tls'],
  tcp_edges: ['backend', 'ip_restriction', 'rate_limit'],
  routes: (Object.keys(modules) as ModuleName[]).filter((name) => name !== 'mutual_tls'),
} as const

/** Omitted fields keep their values; '' and null clear them. */
const annotations = ({ sent, old }: Writing): Fields =>
  Object.fromEntries(
    ['description', 'metadata'].map((name) => [name, name in sent ? sent[name] || undefined : old[name]]),
  )
/** Omitted fields keep their values, or get the default on creation. */
const field = ({ sent, old }: Writing, name: string, byDefault?: unknown) => sent[name] ?? old[name] ?? byDefault

/** Unlike that of most fields, its null is a value. */
function cells({ sent, old }: Writing): unknown {
  const wanted = 'cells' in sent ? sent.cells : (old.cells ?? null)
  if (Array.isArray(wanted) && wanted[0] !== 'default') throw new Refused(400, 'ERR_INVALID_FIELD', 'cells[0]')
  return wanted
}

function hostports(writing: Writing): string[] {
  const { model, before } = writing
  const wanted = field(writing, 'hostports', []) as string[]
  const taken = [...model.living.values()]
    .filter((thing) => thing !== before)
    .flatMap(({ shown }) => shown.hostports ?? [])
  const at = wanted.findIndex((hostport) => model.takenElsewhere.has(hostport) || taken.includes(hostport))
  if (at >= 0) throw new Refused(409, 'ERR_HOSTPORT_TAKEN', `hostports[${at}]`)
  return wanted
}

/** An object sets the whole module, null removes it, and an omitted one stays. */
const inlineModules = (kind: keyof typeof modulesOf, { model, sent, old }: Writing): Fields =>
  Object.fromEntries(
    modulesOf[kind].map((name) => {
      const body = sent[name] as Fields | null | undefined
      return [name, body ? model.writeModule(name, body, `${name}.`) : body === null ? null : (old[name] ?? null)]
    }),
  )

/** No other thing of the kind, below the same edge if it is below one, may be the same by this key. */
function unique(writing: Writing, kind: Kind, shown: Fields, key: (of: Fields) => string, code: string, named: string) {
  const others = writing.model.all(kind, writing.above).filter((thing) => thing !== writing.before)
  if (others.some((other) => key(other.shown) === key(shown))) throw new Refused(409, code, named)
  return shown
}

function restriction(writing: Writing): Fields {
  const { model, sent, old } = writing
  const ids = sent.ip_policy_ids as string[] | undefined
  const shown = {
    ...annotations(writing),
    type: field(writing, 'type'),
    enforced: field(writing, 'enforced', false),
    ip_policies: ids?.map((id, index) => model.ref('ip_policies', id, `ip_policy_ids[${index}]`)) ?? old.ip_policies,
  }
  // No rule of this model allows the address that it calls from.
  if (shown.type === 'api' && shown.enforced) throw new Refused(409, 'ERR_SELF_LOCKOUT')
  return shown
}

function owner({ model, sent, old }: Writing): unknown {
  if (old.owner_id) return old.owner_id
  const id = (sent.owner_id ?? model.callerId) as string
  const found = model.living.get(id)
  if (!found || !['users', 'bot_users'].includes(found.kind) || !found.shown.active) throw invalid('owner_id')
  return id
}

const createdBy = ({ model, old }: Writing): unknown =>
  old.created_by_key_id === undefined ? model.callerKeyId : old.created_by_key_id

/** No command of the model ends, rotates or limits a key. */
const untouched = { expires_at: null, rotated_at: null, previous_token: null, scopes: ['*'], allowed_cidrs: [] }
const ownedBy = (other: Thing, gone: Thing) => other.kind === 'api_keys' && other.shown.owner_id === gone.id

const kinds: Record<Kind, Rules> = {
  api_keys: {
    path: () => '/api_keys',
    list: 'keys',
    write: (writing) => ({
      ...annotations(writing),
      token: null,
      owner_id: owner(writing),
      created_by_key_id: createdBy(writing),
      ...untouched,
    }),
  },
  users: {
    path: () => '/users',
    list: 'users',
    write(writing) {
      const [name, email] = [field(writing, 'name'), field(writing, 'email')]
      const shown = { name, email, role: field(writing, 'role', 'member'), active: field(writing, 'active', true) }
      return unique(writing, 'users', shown, (user) => String(user.email).toLowerCase(), 'ERR_EMAIL_TAKEN', 'email')
    },
    takesAlong: ownedBy,
  },
  bot_users: {
    path: () => '/bot_users',
    list: 'bot_users',
    write: (writing) => ({ name: field(writing, 'name'), active: field(writing, 'active', true) }),
    takesAlong: ownedBy,
  },
  ip_policies: {
    path: () => '/ip_policies',
    list: 'ip_policies',
    write: annotations,
    inUse: 'ERR_IP_POLICY_IN_USE',
    takesAlong: (other, gone) => other.kind === 'ip_policy_rules' && refersTo(other, gone),
  },
  ip_policy_rules: {
    path: () => '/ip_policy_rules',
    list: 'ip_policy_rules',
    write(writing) {
      const { model, sent, old } = writing
      const ip_policy = old.ip_policy ?? model.ref('ip_policies', sent.ip_policy_id as string, 'ip_policy_id')
      const shown = {
        ...annotations(writing),
        cidr: field(writing, 'cidr'),
        action: field(writing, 'action'),
        ip_policy,
      }
      const key = (rule: Fields) => JSON.stringify([rule.ip_policy, rule.cidr])
      return unique(writing, 'ip_policy_rules', shown, key, 'ERR_CIDR_TAKEN', 'cidr')
    },
  },
  ip_restrictions: { path: () => '/ip_restrictions', list: 'ip_restrictions', write: restriction },
  backends: {
    path: () => '/backends/static',
    list: 'backends',
    write: (writing) => ({
      ...annotations(writing),
      address: field(writing, 'address'),
      tls: field(writing, 'tls', { enabled: false }),
      protocol: field(writing, 'protocol', 'http1'),
      send_proxy_protocol: field(writing, 'send_proxy_protocol', false),
      health_check: field(writing, 'health_check', null),
    }),
    inUse: 'ERR_BACKEND_IN_USE',
  },
  tcp_edges: {
    path: () => '/edges/tcp',
    list: 'tcp_edges',
    write: (writing) => ({
      ...annotations(writing),
      // Before the hostports: what a body refers to is checked before what is taken.
      cells: cells(writing),
      ...inlineModules('tcp_edges', writing),
      hostports: hostports(writing),
    }),
  },
  https_edges: {
    path: () => '/edges/https',
    list: 'https_edges',
    write: (writing) => ({
      ...annotations(writing),
      cells: cells(writing),
      ...inlineModules('https_edges', writing),
      hostports: hostports(writing),
    }),
    takesAlong: (other, gone) => other.above === gone,
  },
  routes: {
    path: (edgeId) => `/edges/https/${edgeId}/routes`,
    write(writing) {
      const matching = { match_type: field(writing, 'match_type'), match: field(writing, 'match') }
      const key = (route: Fields) => `${route.match_type} ${route.match}`
      unique(writing, 'routes', matching, key, 'ERR_MATCH_TAKEN', 'match')
      const encoded_slashes = field(writing, 'encoded_slashes', 'reject')
      const path_variants = field(writing, 'path_variants', 'restrict')
      const websocket = field(writing, 'websocket', true)
      const timeouts = field(writing, 'timeouts', null)
      return {
        ...annotations(writing),
        ...matching,
        encoded_slashes,
        path_variants,
        websocket,
        timeouts,
        ...inlineModules('routes', writing),
      }
    },
  },
}

export const rulesOf = (kind: Kind): Rules => kinds[kind]
export const kindNames = Object.keys(kinds) as Kind[]

/** By a Ref, wherever it stands. */
const refersTo = ({ shown }: Thing, { id }: Thing): boolean => JSON.stringify(shown).includes(`"id":"${id}"`)

const withoutUndefined = (fields: Fields): Fields =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
