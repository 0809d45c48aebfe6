// What people do at random, at the same time: changes, change sets, and undoing what they or others did.
import type { Answer, Client } from '../harness/client.ts'
import { randomBelow } from '../harness/random.ts'
import { type Configuration, configurationOf, type Shown } from './configuration.ts'

/** What they change. */
const changed = /^(ip_policies|ip_policy_rules|ip_restrictions|static_backends|tcp_edges|https_edges)\./
export const seenBy = (account: Client): Promise<Configuration> => configurationOf(account, changed)

const oneOf = <Item>(items: readonly Item[]): Item | undefined => items[randomBelow(items.length)]
const words = ['one', 'two', 'three', null]
/** Change sets create a policy and a backend with such a description. Only change sets touch them. */
export const pairPrefix = 'pair'
const isPair = ({ description }: Shown) => String(description).startsWith(pairPrefix)

export type Target = { kind: 'audit_events' | 'change_sets'; id: string }

/** What could be undone: any of the newest events, or any change set. */
export async function targetOf(admin: Client): Promise<Target | undefined> {
  if (randomBelow(4) === 0) {
    const { change_sets } = (await admin('GET', '/change_sets?state=applied&limit=20')).body
    const set = oneOf<{ id: string }>(change_sets)
    return set && { kind: 'change_sets', id: set.id }
  }
  const { audit_events } = (await admin('GET', '/audit_events?limit=60')).body
  // One half of a pair is not undone: it would look like half of a change set.
  const isOwn = (event: { operation: string }) =>
    !JSON.stringify(event).includes(pairPrefix) &&
    !/^(server|change_sets|audit_events|users|api_keys|accounts)\b/.test(event.operation)
  const event = oneOf<{ id: string }>(audit_events.filter(isOwn))
  return event && { kind: 'audit_events', id: event.id }
}

export const draftRevert = (person: Client, { kind, id }: Target) => person('POST', `/${kind}/${id}/revert`, {})
export const applySet = (person: Client, id: string) => person('POST', `/change_sets/${id}/apply`, {})

let pairs = 0

/** One thing that a person does. What others do meanwhile may be in its way. */
export async function act(person: Client, admin: Client, known: Configuration): Promise<Answer | undefined> {
  const choice = randomBelow(20)
  if (choice < 4) return undo(person, admin)
  if (choice < 7) return applyNew(person, changesOfSet(known))
  return change(person, known)
}

async function undo(person: Client, admin: Client): Promise<Answer | undefined> {
  const target = await targetOf(admin)
  const draft = target && (await draftRevert(person, target))
  return draft?.status === 201 ? applySet(person, draft.body.id) : draft
}

/** Resolves to the answer of what refused them, if they are not applied. */
export async function applyNew(person: Client, changes: object[]): Promise<Answer> {
  const draft = await person('POST', '/change_sets', { changes })
  return draft.status === 201 ? applySet(person, draft.body.id) : draft
}

export const changesOfSet = (known: Configuration): object[] => [...pairOf(), ...updatesOf(known)]

const pairOf = () => {
  const description = `${pairPrefix} ${pairs++}`
  return [
    { operation: 'ip_policies.create', body: { description } },
    { operation: 'static_backends.create', body: { address: 'app.internal:80', description } },
  ]
}
const updatesOf = ({ 'ip_policies.list': policies = [], 'static_backends.list': backends = [] }: Configuration) => {
  const [policy, backend] = [
    oneOf(policies.filter((each) => !isPair(each))),
    oneOf(backends.filter((each) => !isPair(each))),
  ]
  const body = { description: oneOf(words) }
  return [
    ...(policy ? [{ operation: 'ip_policies.update', parameters: { id: policy.id }, body }] : []),
    ...(backend ? [{ operation: 'static_backends.update', parameters: { id: backend.id }, body }] : []),
  ]
}

export function change(person: Client, known: Configuration): Promise<Answer> {
  const some = (list: string) => oneOf((known[`${list}.list`] ?? []).filter((each) => !isPair(each)))
  const [policy, rule, restriction] = [some('ip_policies'), some('ip_policy_rules'), some('ip_restrictions')]
  const [backend, edge, tcp] = [some('static_backends'), some('https_edges'), some('tcp_edges')]
  const route = oneOf((edge?.routes ?? []) as Shown[])
  const text = { [oneOf(['description', 'metadata']) ?? '']: oneOf(words) }
  const modules = `/edges/https/${edge?.id}/routes/${route?.id}`
  const type = oneOf(['agent', 'endpoints'])
  const enforced = type === 'endpoints' && randomBelow(2) === 0
  const create: [path: string, body: object][] = [
    ['/ip_policies', text],
    ['/backends/static', { address: 'app.internal:80', ...text }],
    ['/edges/https', text],
  ]
  const cidr = `10.${randomBelow(3)}.0.0/16`
  if (policy) create.push(['/ip_policy_rules', { ip_policy_id: policy.id, action: 'allow', cidr, ...text }])
  if (policy) create.push(['/ip_restrictions', { type, ip_policy_ids: [policy.id], enforced, ...text }])
  if (backend) create.push(['/edges/tcp', { backend: { backend_id: backend.id }, ...text }])
  if (edge)
    create.push([`/edges/https/${edge.id}/routes`, { match_type: 'exact_path', match: `/${randomBelow(4)}`, ...text }])
  const existing = [policy, rule, restriction, backend, edge, tcp, route].filter((each) => each !== undefined)
  const it = oneOf(existing)
  const doing = randomBelow(10)
  if (route && doing < 2 && policy && backend) {
    const [name, body] = oneOf([
      ['ip_restriction', { ip_policy_ids: [policy.id], enabled: randomBelow(2) === 0 }],
      ['backend', { backend_id: backend.id }],
      ['request_headers', { add: { 'X-One': oneOf(words) ?? '', 'X-A': 'a' } }],
    ] as const) ?? ['', {}]
    return randomBelow(3) ? person('PUT', `${modules}/${name}`, body) : person('DELETE', `${modules}/${name}`)
  }
  if (!it || doing < 6) {
    const [path, body] = oneOf(create) ?? ['', {}]
    return person('POST', path, body)
  }
  if (doing < 8) return person('PATCH', String(it.uri), { ...text, ...(randomBelow(2) ? newValues(it, known) : {}) })
  return person('DELETE', String(it.uri))
}

/** New values for fields that are in the records of edge nodes. */
function newValues({ id }: Shown, { 'ip_policies.list': policies = [] }: Configuration): object {
  const action = oneOf(['allow', 'deny'])
  const isOn = randomBelow(2) === 0
  const policy = oneOf(policies.filter((each) => !isPair(each)))
  const byPrefix: Record<string, object> = {
    ipr: { action },
    ipx: { ...(policy && { ip_policy_ids: [policy.id] }) },
    bkdst: { address: `app.internal:${8_000 + randomBelow(3)}` },
    edghtsrt: { websocket: isOn, path_variants: oneOf(['restrict', 'ignore']), match: `/${randomBelow(4)}` },
  }
  return byPrefix[id.replace(/_.*/, '')] ?? {}
}
