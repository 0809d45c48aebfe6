import assert from 'node:assert/strict'
import fc from 'fast-check'
import type { Answer, Client } from '../harness/client.ts'
import {
  createBody,
  Hostport,
  httpsModuleBodies,
  moduleBodies,
  Pick,
  pick,
  tcpModuleBodies,
  updateBody,
} from './bodies.ts'
import {
  type Fields,
  type Kind,
  kindNames,
  type Model,
  type ModuleName,
  modulesOf,
  Refused,
  rulesOf,
  type Thing,
} from './model.ts'

/** The account that the commands act in, and what of other accounts they may name. */
export type Real = {
  admin: Client
  foreign: Record<Kind, string>
  suffix: string
  foreignHost: string
  /** A port belongs to one account. */
  tcpPort: number
}
type Command = fc.AsyncCommand<Model, Real>
const absentId = 'x_00000000000000000000000000'

function idOf({ kind, from, index }: Pick, model: Model, { foreign }: Real): string {
  if (from === 'foreign') return foreign[kind]
  const things = from === 'living' ? pickable(model, kind) : model.deleted.filter((thing) => thing.kind === kind)
  // An id of another kind would be malformed, so this one starts with the right prefix.
  return things[index % things.length]?.id ?? foreign[kind].replace(/_.*/, absentId.slice(1))
}
/** Everything but the caller and its key, which must live on. */
const pickable = (model: Model, kind: Kind) => model.all(kind).filter(({ isCaller }) => !isCaller)

/** The body as it is sent: ids and host names in the places that stood for them. */
function resolve(value: unknown, model: Model, real: Real): unknown {
  if (value instanceof Pick) return idOf(value, model, real)
  if (value instanceof Hostport)
    return value.label === 'foreign'
      ? `${real.foreignHost}:${value.port}`
      : `${value.label}.${real.suffix}:${value.port === 443 ? 443 : real.tcpPort}`
  // Two that were different may stand for one and the same.
  if (Array.isArray(value)) return [...new Set(value.map((item) => resolve(item, model, real)))]
  if (value === null || typeof value !== 'object') return value
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, resolve(inner, model, real)]))
}

/** What the model says of a call: a refusal, or what comes of it. */
function outcome<Result>(decide: () => Result): Result | Refused {
  try {
    return decide()
  } catch (error) {
    if (error instanceof Refused) return error
    throw error
  }
}

function assertRefused({ status, body }: Answer, { status: expected, code, field }: Refused): void {
  assert.deepEqual([status, body?.error_code, body?.details?.field], [expected, code, field])
}
/** The service chooses times and knows how things are; tokens appear once. None of it is in the model. */
const notInModel = /^(created_at|last_used_(at|ip)|status|has_signed_in|invitation_(state|expires_at|api_key_id))$/
export const comparable = (body: unknown): unknown =>
  JSON.parse(
    JSON.stringify(body, (name, value) => (notInModel.test(name) ? undefined : name === 'token' ? null : value)),
  )
const assertShown = (answer: Answer, status: number, shown: unknown) =>
  assert.deepEqual([answer.status, comparable(answer.body)], [status, shown], answer.text)

const command = (name: string, run: Command['run'], check: Command['check'] = () => true): Command => ({
  check,
  run,
  toString: () => name,
})

/** The edge of a route, so that a route may be asked for below an edge that is not its own. */
type Place = { at: Pick; below: Pick | undefined }
const place = (kind: Kind): fc.Arbitrary<Place> =>
  fc
    .tuple(pick(kind), fc.option(pick('https_edges'), { nil: undefined, freq: 8 }))
    .map(([at, below]) => ({ at, below }))

function locate({ at, below }: Place, model: Model, real: Real): { path: string; find: () => Thing } {
  const id = idOf(at, model, real)
  if (at.kind !== 'routes') return { path: `${rulesOf(at.kind).path()}/${id}`, find: () => model.find(at.kind, id) }
  const own = model.living.get(id)?.above?.id ?? real.foreign.https_edges
  const edgeId = below ? idOf(below, model, real) : own
  return {
    path: `${rulesOf('routes').path(edgeId)}/${id}`,
    find: () => model.find('routes', id, model.living.get(edgeId) ?? ({} as Thing)),
  }
}

const create = (kind: Kind) =>
  fc.tuple(createBody(kind), pick('https_edges')).map(([body, parent]) =>
    command(
      `create ${kind} ${JSON.stringify(body)}${kind === 'routes' ? ` below ${parent}` : ''}`,
      async (model, real) => {
        const sent = resolve(body, model, real) as Fields
        const edgeId = kind === 'routes' ? idOf(parent, model, real) : undefined
        const expected = outcome(() => {
          const above = edgeId === undefined ? undefined : model.find('https_edges', edgeId)
          return { above, shown: model.write(kind, sent, undefined, above) }
        })
        const answer = await real.admin('POST', rulesOf(kind).path(edgeId), sent)
        if (expected instanceof Refused) return assertRefused(answer, expected)
        assert.equal(answer.status, 201, answer.text)
        const thing = { kind, id: answer.body.id, ...expected }
        model.living.set(thing.id, thing)
        assertShown(answer, 201, model.view(thing))
      },
    ),
  )

const get = (kind: Kind) =>
  place(kind).map((where) =>
    command(`get ${where.at}`, async (model, real) => {
      const { path, find } = locate(where, model, real)
      const expected = outcome(() => model.view(find()))
      const answer = await real.admin('GET', path)
      if (expected instanceof Refused) assertRefused(answer, expected)
      else assertShown(answer, 200, expected)
    }),
  )

const list = (kind: Kind) =>
  fc.option(fc.integer({ min: 1, max: 4 })).map((limit) =>
    command(`list ${kind}${limit ? ` by ${limit}` : ''}`, async (model, { admin }) => {
      const { path, list: name = '' } = rulesOf(kind)
      const listed: Fields[] = []
      for (let next: string | null = `${path()}${limit ? `?limit=${limit}` : ''}`; next; ) {
        const { status, body }: Answer = await admin('GET', next)
        assert.equal(status, 200)
        listed.push(...body[name])
        next = body.next_page_uri
      }
      assert.deepEqual(
        comparable(listed),
        model.all(kind).map((thing) => model.view(thing)),
      )
    }),
  )

const update = (kind: Kind) =>
  fc.tuple(place(kind), updateBody(kind)).map(([where, body]) =>
    command(`update ${where.at} ${JSON.stringify(body)}`, async (model, real) => {
      const sent = resolve(body, model, real) as Fields
      const { path, find } = locate(where, model, real)
      const expected = outcome(() => {
        const thing = find()
        return { thing, shown: model.write(kind, sent, thing, thing.above) }
      })
      const answer = await real.admin('PATCH', path, sent)
      if (expected instanceof Refused) return assertRefused(answer, expected)
      expected.thing.shown = expected.shown
      assertShown(answer, 200, model.view(expected.thing))
    }),
  )

const remove = (kind: Kind) =>
  place(kind).map((where) =>
    command(`delete ${where.at}`, async (model, real) => {
      const { path, find } = locate(where, model, real)
      const expected = outcome(() => model.delete(find()))
      const answer = await real.admin('DELETE', path)
      if (expected instanceof Refused) assertRefused(answer, expected)
      else assert.equal(answer.status, 204, answer.text)
    }),
  )

type Carrier = 'tcp_edges' | 'https_edges' | 'routes'
const bodiesOf: Record<Carrier, Partial<Record<ModuleName, fc.Arbitrary<object>>>> = {
  tcp_edges: tcpModuleBodies,
  https_edges: httpsModuleBodies,
  routes: moduleBodies,
}
const moduleOf = (kind: Carrier, name: ModuleName) =>
  fc
    .tuple(place(kind), fc.oneof(bodiesOf[kind][name] as fc.Arbitrary<Fields>, fc.constantFrom('GET', 'DELETE')))
    .map(([where, what]) => {
      const method = typeof what === 'string' ? what : 'PUT'
      return command(`${method} ${name} of ${where.at} ${JSON.stringify(what)}`, async (model, real) => {
        const sent = typeof what === 'string' ? undefined : (resolve(what, model, real) as Fields)
        const { path, find } = locate(where, model, real)
        const expected = outcome(() => {
          const thing = find()
          if (sent) thing.shown = { ...thing.shown, [name]: model.writeModule(name, sent) }
          if (method === 'DELETE') thing.shown = { ...thing.shown, [name]: null }
          if (method === 'GET' && !thing.shown[name]) throw new Refused(404, 'ERR_NOT_FOUND')
          return thing.shown[name]
        })
        const answer = await real.admin(method, `${path}/${name}`, sent)
        if (expected instanceof Refused) assertRefused(answer, expected)
        else if (method === 'DELETE') assert.equal(answer.status, 204)
        else assertShown(answer, 200, expected)
      })
    })

/** The caller is an admin; while there is no other, nothing may make an end of that. */
const endLastAdmin = fc.constantFrom({ role: 'member' }, { active: false }, undefined).map((body) =>
  command(
    `${body ? 'demote' : 'delete'} the last admin`,
    async (model, { admin }) => {
      const answer = await admin(body ? 'PATCH' : 'DELETE', `/users/${model.callerId}`, body)
      assertRefused(answer, new Refused(409, 'ERR_LAST_ADMIN'))
    },
    (model) => model.all('users').filter(({ shown }) => shown.role === 'admin' && shown.active).length === 1,
  ),
)

/** Kinds that have to do with each other. Among all ten at once, hardly any command would meet what another made. */
const groups: Kind[][] = [
  ['users', 'bot_users', 'api_keys'],
  ['ip_policies', 'ip_policy_rules', 'ip_restrictions'],
  ['ip_policies', 'backends', 'tcp_edges'],
  ['ip_policies', 'backends', 'https_edges', 'routes'],
  kindNames,
]
const commandsOn = (kind: Kind): fc.Arbitrary<Command>[] => [
  // Twice, so that there is something for the others to act on.
  ...[create(kind), create(kind), get(kind), update(kind), update(kind), remove(kind)],
  ...(rulesOf(kind).list ? [list(kind)] : []),
  ...(kind === 'tcp_edges' || kind === 'https_edges' || kind === 'routes'
    ? modulesOf[kind].map((name) => moduleOf(kind, name))
    : []),
  ...(kind === 'users' ? [endLastAdmin] : []),
]

/** One of each kind to begin with, then any. */
export const sequences: fc.Arbitrary<{ beginning: Command[]; rest: Iterable<Command> }> = fc.oneof(
  ...groups.map((kinds) =>
    fc.record({
      beginning: fc.tuple(...kinds.map(create)),
      rest: fc.commands(kinds.flatMap(commandsOn), { maxCommands: 50 - kinds.length, size: 'max' }),
    }),
  ),
)
