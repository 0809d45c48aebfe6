import assert from 'node:assert/strict'
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { type Entry, entriesOf, type MapName, mapNames, readyEntries } from '../../src/agent/haproxy/maps/entries.ts'
import { ask } from '../../src/agent/haproxy/process/runtime.ts'
import type { HttpsRecord, RouteRecord } from '../../src/distribution/records.ts'
import { newId } from '../../src/kernel/ids.ts'
import { poll } from '../harness/poll.ts'
import { random, randomBelow } from '../harness/random.ts'
import { get, startHttpUpstream } from './http_harness.ts'
import { type Edge, startEdge } from './proxy_harness.ts'

type Records = Map<string, unknown>

/** Every entry of a map as HAProxy has it, and where in its memory. */
async function shown(edge: Edge, map: MapName): Promise<{ key: string; value: string; at: string }[]> {
  const text = await ask(edge.settings.runtimeSocket, `show map ${join(edge.settings.folder, `maps/${map}.map`)}`)
  return text
    .split('\n')
    .filter(Boolean)
    .map((line) => {
      const [, at = '', key = '', value = ''] = /^(0x\S+) (\S+) (.*)$/.exec(line) ?? assert.fail(line)
      return { key, value, at }
    })
}

/** What the records say, without the code that keeps track of it: of several claims the smallest holds. */
function wantedEntries(records: Records): Map<MapName, Map<string, string>> {
  const wanted = new Map(mapNames.map((map) => [map, new Map<string, string>()]))
  const all = [...records].flatMap(([key, value]) => entriesOf(key, value))
  for (const { map, key, value } of [...readyEntries, ...all]) {
    const entries = (wanted as Map<Entry['map'], Map<string, string>>).get(map)
    const held = entries?.get(key)
    if (held === undefined || value < held) entries?.set(key, value)
  }
  return wanted
}

async function assertInForce(edge: Edge, records: Records, when: string): Promise<void> {
  for (const [map, wanted] of wantedEntries(records)) {
    const found = await shown(edge, map)
    const held = new Map(found.map(({ key, value }) => [key, value]))
    const wrong = [...new Set([...held.keys(), ...wanted.keys()])].filter((key) => held.get(key) !== wanted.get(key))
    // Not one deepEqual of both: with thousands of entries it would take minutes to describe what differs.
    assert.deepEqual(
      wrong.slice(0, 3).map((key) => ({ key, found: held.get(key), wanted: wanted.get(key) })),
      [],
      `${wrong.length} entries of ${map} are wrong ${when}`,
    )
    assert.equal(found.length, wanted.size, `${map} has a key twice ${when}`)
  }
}

const workerOf = async ({ settings }: Edge): Promise<number> =>
  Number(/^Pid: (\d+)$/m.exec(await ask(settings.runtimeSocket, 'show info'))?.[1])

/** Everything that routes can name: three upstreams, an address without a listener, a policy that opens, one that shuts. */
async function startModel(t: TestContext) {
  const edge = await startEdge(t, { certificates: ['*.example.com'] })
  const account = newId('ac')
  const records: Records = new Map([[`restrictions.${account}`, { sets: [] }]])
  const backends = new Map<string | null, string>([[null, '503']])
  for (const name of ['one', 'two', 'three']) {
    const backend = newId('bkdst')
    const { port } = await startHttpUpstream(t, name)
    records.set(`backend.${backend}`, { address: '127.0.0.1', port, tls: false, host: 'upstream.test' })
    backends.set(backend, name)
  }
  const [open, shut] = [newId('ipp'), newId('ipp')]
  records.set(`policy.${open}`, await edge.writePolicyFile('allow 127.0.0.0/8'))
  records.set(`policy.${shut}`, await edge.writePolicyFile('allow 192.0.2.1'))
  await edge.put(Object.fromEntries(records))
  /** Into HAProxy and into the model at once. */
  const put = async (changes: Records) => {
    await edge.put(Object.fromEntries(changes))
    for (const [key, value] of changes) records.set(key, value)
  }
  return { edge, account, records, backends, open, shut, put }
}
type Model = Awaited<ReturnType<typeof startModel>>

const hosts = Array.from({ length: 40 }, (_, index) => `h${index}.example.com`)
const paths = ['/', '/a', '/a/b', '/a/b/c', '/ab', '/b']
const oneOf = <Item>(items: readonly Item[]): Item => items[randomBelow(items.length)] as Item

function randomRoute({ account, backends, open, shut }: Model, edge: RouteRecord['edge']): RouteRecord {
  return {
    account,
    edge,
    match_type: oneOf(['exact_path', 'path_prefix']),
    match: oneOf(paths),
    backend: oneOf([...backends.keys()]) as RouteRecord['backend'],
    policies: oneOf([null, [open], [shut], [open, shut]]),
    headers: null,
  }
}

function randomChanges(model: Model, count: number): Records {
  const kinds = { https: [] as string[], route: [] as string[] }
  for (const [key, value] of model.records) {
    const kind = key.startsWith('https.') ? 'https' : key.startsWith('route.') ? 'route' : undefined
    if (kind && value !== null) kinds[kind].push(key)
  }
  const changes: Records = new Map()
  for (let index = 0; index < count; index++) {
    const choice = random()
    const hostports = Array.from({ length: randomBelow(3) }, () => `${oneOf(hosts)}:443`)
    if (kinds.https.length === 0 || choice < 0.15) {
      const key = `https.${newId('edghts')}`
      changes.set(key, { hostports: random() < 0.1 ? ['*.example.com:443'] : [...new Set(hostports)] })
      kinds.https.push(key)
    } else if (choice < 0.25) changes.set(oneOf(kinds.https), { hostports: [...new Set(hostports)] })
    else if (choice < 0.3) changes.set(oneOf(kinds.https), null)
    else if (choice < 0.45 && kinds.route.length > 0) changes.set(oneOf(kinds.route), null)
    else {
      const key = choice < 0.7 && kinds.route.length > 0 ? oneOf(kinds.route) : `route.${newId('edghtsrt')}`
      changes.set(key, randomRoute(model, oneOf(kinds.https).slice(6) as RouteRecord['edge']))
      kinds.route.push(key)
    }
  }
  return changes
}

/** What a request must get, from the records alone and one by one: the upstream's name, or the status. */
function decisionOf({ records, backends, open }: Model, host: string, path: string): string {
  const ofKind = <Value>(kind: string) =>
    [...records].flatMap(([key, value]) =>
      key.startsWith(kind) && value ? [{ id: key.slice(6), value: value as Value }] : [],
    )
  const edges = ofKind<HttpsRecord>('https.')
  const claiming = (hostport: string) =>
    edges
      .filter(({ value }) => value.hostports.includes(hostport))
      .map(({ id }) => id)
      .sort()[0]
  const edge = claiming(`${host}:443`) ?? claiming('*.example.com:443')
  // The closest: an exact path goes before every prefix, a longer prefix before a shorter one. Then the oldest.
  const matching = ofKind<RouteRecord>('route.')
    .filter(({ value }) => value.edge === edge)
    .filter(({ value: { match, match_type } }) =>
      match_type === 'exact_path' ? match === path : match === '/' || path === match || path.startsWith(`${match}/`),
    )
    .map(({ id, value }) => ({ id, value, width: value.match_type === 'exact_path' ? 1_000 : value.match.length }))
    .sort((a, b) => b.width - a.width || (a.id < b.id ? -1 : 1))
  const [route] = matching
  if (!route) return '404'
  // A restricted route with the same path decides as well, although an older one has its place.
  const guard = matching.find(({ value, width }) => value.policies && width === route.width)
  // Several policies count as one: what one of them allows is allowed.
  const refuses = ({ value: { policies } }: typeof route) => policies?.includes(open) === false
  if (refuses(route) || (guard && refuses(guard))) return '403'
  return backends.get(route.value.backend) ?? assert.fail(`${route.value.backend}`)
}

async function answerTo({ edge }: Model, host: string, path: string): Promise<string> {
  const { status, body } = await get(edge, { host, path })
  return status === 200 ? body : String(status)
}

test('after any history HAProxy has exactly what the records say, and decides by it', async (t) => {
  const model = await startModel(t)
  const { edge, records, put } = model
  const worker = await workerOf(edge)
  for (const [round, count] of [1, 5, 400, 1, 60, 3, 400, 1, 150, 30].entries()) {
    await put(randomChanges(model, count))
    if (round % 4 === 3) await edge.restartAgent()
    await assertInForce(edge, records, `after ${count} changes in round ${round}`)
    for (let index = 0; index < 25; index++) {
      const [host, path] = [oneOf(hosts), oneOf([...paths, '/a/x', '/a/b/x', '/abc', '/c'])]
      assert.equal(await answerTo(model, host, path), decisionOf(model, host, path), `${host}${path} in round ${round}`)
    }
  }
  await put(new Map([...records.keys()].map((key) => [key, null])))
  await assertInForce(edge, records, 'when all is gone')
  assert.equal(await workerOf(edge), worker, 'HAProxy was reloaded')
  assert.deepEqual(edge.troubles, [])
})

const manyRoutes = ({ account, open, shut }: Model, count: number, https = newId('edghts')) =>
  Array.from({ length: count }, (_, index): [string, RouteRecord] => [
    `route.${newId('edghtsrt')}`,
    {
      account,
      edge: https,
      match_type: 'path_prefix',
      match: `/r${index}`,
      backend: null,
      policies: index % 2 ? [open] : [shut],
      headers: null,
    },
  ])

test('a change touches its own entries only, alone and among hundreds, and so does a restarted agent', async (t) => {
  const model = await startModel(t)
  const { edge, put, open } = model
  const routes = manyRoutes(model, 3_000)
  await put(new Map(routes))
  // Where an entry is in HAProxy's memory stays as long as the entry is not made again.
  const places = async () => new Map((await shown(edge, 'route')).map(({ key, at }) => [key, at]))
  const before = await places()
  assert.equal(before.size, 3_000)
  await put(new Map(routes.slice(0, 1).map(([key, value]) => [key, { ...value, policies: null }])))
  await put(new Map(routes.slice(0, 900).map(([key, value]) => [key, { ...value, policies: [open] }])))
  assert.deepEqual(await places(), before, 'other values')
  await edge.restartAgent()
  assert.deepEqual(await places(), before, 'a new agent')
  const gone = routes.slice(1_000, 1_700)
  await put(new Map([...manyRoutes(model, 800), ...gone.map(([key]): [string, null] => [key, null])]))
  const after = await places()
  const goneKeys = new Set(gone.flatMap(([key, value]) => entriesOf(key, value).map((entry) => entry.key)))
  for (const [key, at] of before) assert.equal(after.get(key), goneKeys.has(key) ? undefined : at, key)
  assert.equal(after.size, 3_000 + 800 - 700)
  await assertInForce(edge, model.records, 'in the end')
})

test('the next agent repairs maps that were edited by hand, and reloads HAProxy only if it must', async (t) => {
  const model = await startModel(t)
  const { edge, put } = model
  await put(new Map(manyRoutes(model, 50)))
  const worker = await workerOf(edge)
  const [first, second, third] = (await shown(edge, 'route')).map(({ key }) => key)
  const file = join(edge.settings.folder, 'maps/route.map')
  const byHand = async (command: string) => assert.equal(await ask(edge.settings.runtimeSocket, command), '')
  await byHand(`del map ${file} ${first}`)
  await byHand(`set map ${file} ${second} nonsense`)
  await byHand(`add map ${file} foreign value`)
  await edge.restartAgent()
  await assertInForce(edge, model.records, 'after a new agent')
  assert.equal(await workerOf(edge), worker, 'HAProxy was reloaded')
  assert.deepEqual(edge.troubles, [])

  // Neither of them could be named alone.
  await byHand(`add map ${file} ${third} other`)
  await edge.restartAgent()
  await assertInForce(edge, model.records, 'after another one')
  assert.notEqual(await workerOf(edge), worker)
  assert.match(String(edge.troubles.map(({ cause }) => cause)), /twice in the map route/)
  await byHand(`add map ${file} foreign value`)
  await byHand(`add map ${file} foreign value`)
  await edge.restartAgent()
  await assertInForce(edge, model.records, 'in the end')
})

for (const [name, isKnown] of [
  ['has the batch on its disk', true],
  ['knows nothing of the batch', false],
] as const)
  test(`an agent is killed half-way through a batch, and the next one ${name}: the maps are right`, async (t) => {
    const model = await startModel(t)
    const { edge, records } = model
    await edge.proxy.detach()
    const worker = await workerOf(edge)
    const batch = manyRoutes(model, 30_000)
    const agent = fork(new URL('killed_agent.ts', import.meta.url))
    t.after(() => agent.kill('SIGKILL'))
    const set = batch.flatMap(([key, value]) => entriesOf(key, value))
    agent.send({ settings: edge.settings, all: edge.all(), change: { set, del: [] } })
    const held = await poll(
      async () =>
        Number(/route\.map\) .*entry_cnt=(\d+)/.exec(await ask(edge.settings.runtimeSocket, 'show map'))?.[1]),
      (count) => count > 0,
      { everyMs: 1 },
    )
    agent.kill('SIGKILL')
    await once(agent, 'exit')
    assert.ok(held < batch.length, `all ${held} were there already`)
    if (isKnown) for (const [key, value] of batch) records.set(key, value)
    await edge.restartAgent(isKnown ? Object.fromEntries(batch) : {})
    await assertInForce(edge, records, 'after the restart')
    assert.equal(await workerOf(edge), worker, 'HAProxy was reloaded')
    assert.deepEqual(edge.troubles, [])
  })

test('a narrow route that refuses is added before a wide one that allows, and removed after it, among thousands of others', async (t) => {
  const model = await startModel(t)
  const { edge, put, shut, backends } = model
  const https = newId('edghts')
  const others = manyRoutes(model, 4_000, https)
  const route = (match: string, policies: RouteRecord['policies']) => ({
    ...(others[0]?.[1] ?? assert.fail('none')),
    match,
    policies,
    backend: oneOf([...backends.keys()].filter((backend) => backend !== null)),
  })
  await put(new Map([[`https.${https}`, { hostports: ['app.example.com:443'] }]]))
  const [wide, narrow] = [`route.${newId('edghtsrt')}`, `route.${newId('edghtsrt')}`]
  let isOver = false
  const seen = (async () => {
    const statuses: number[] = []
    while (!isOver) statuses.push((await get(edge, { path: '/admin' })).status)
    return new Set(statuses)
  })()
  for (let round = 0; round < 4; round++) {
    await put(new Map<string, unknown>([[wide, route('/', null)], ...others, [narrow, route('/admin', [shut])]]))
    assert.equal((await get(edge, { path: '/' })).status, 200)
    await put(new Map([wide, narrow, ...others.map(([key]) => key)].map((key) => [key, null])))
  }
  isOver = true
  const statuses = await seen
  assert.deepEqual([...statuses].sort(), [403, 404])
})
