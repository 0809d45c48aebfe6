import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { EdgeRecord, RecordKey } from '../distribution/records.ts'
import { newId } from '../kernel/ids.ts'
import { systemTiming } from '../kernel/system_timing.ts'
import { createEnforcement, type Enforcer } from './enforcement.ts'
import { Claims, type Command } from './haproxy/maps/claims.ts'
import { createRefusals } from './refusals.ts'
import { createHealth } from './reports/health.ts'

const silent = { info() {}, warn() {}, error() {} }
const { signal } = new AbortController()

/** The agent's part and HAProxy's, up to the commands that HAProxy would get. */
function start(
  known: ReadonlyMap<RecordKey, EdgeRecord>,
  { openConnections = 'keep' as 'keep' | 'close', proxy: other = {} as Partial<Enforcer> } = {},
) {
  const claims = new Claims()
  const told: Command[][] = []
  const proxy = {
    apply: async (change: Parameters<Claims['change']>[0]) => void told.push(claims.change(change)),
    shadowed: () => undefined,
    closeSessions: async () => 0,
    ...other,
  }
  const refusals = createRefusals({ log: silent, clock: systemTiming.now, logged: new Map(), onChange() {} })
  const health = createHealth()
  const enforcement = createEnforcement(
    { log: silent, timing: systemTiming, known, openConnections, refusals, health, retryMs: 1 },
    proxy,
  )
  return { enforcement, claims, told, health, refusals }
}

test('a policy whose file was missing at the start is put in force when it arrives, although its record is known', async () => {
  const policy = newId('ipp')
  const value = { hash: 'a'.repeat(64), bytes: 12, inline: '' }
  const record: EdgeRecord = { key: `policy.${policy}`, generation: 1, value }
  const { enforcement, claims, told } = start(new Map([[record.key, record]]))
  claims.replace(enforcement.load([], true))
  await enforcement.apply(enforcement.plan([{ record, value: value.hash }]), true, signal)
  assert.deepEqual(told, [[{ kind: 'add', map: 'policy', key: policy, value: value.hash }]])
})

test('a backend that resolves differently is changed once, and what was in force of it ends with it', async () => {
  const backend = newId('bkdst')
  const value = { host: 'a.test', port: 80, tls: false }
  const record: EdgeRecord = { key: `backend.${backend}`, generation: 1, value }
  const { enforcement, claims, told } = start(new Map([[record.key, record]]))
  const at = (address: string | null) => [{ record, value: { ...value, address } }]
  claims.replace(enforcement.load(at('192.0.2.1'), true))
  for (const address of ['192.0.2.2', '192.0.2.2', null])
    await enforcement.apply(enforcement.plan(at(address)), true, signal)
  assert.deepEqual(told, [
    [{ kind: 'set', map: 'backend', key: backend, value: 'plain|192.0.2.2|80|-' }],
    [],
    [{ kind: 'del', map: 'backend', key: backend }],
  ])
})

test('observations of an upstream are forgotten when its backend changes, and only then', async () => {
  const backend = newId('bkdst')
  const value = { host: '192.0.2.1', port: 80, tls: false, address: '192.0.2.1' }
  const record: EdgeRecord = { key: `backend.${backend}`, generation: 1, value }
  const { enforcement, claims, health } = start(new Map([[record.key, record]]))
  claims.replace(enforcement.load([{ record, value }], true))
  health.observe({ backend, address: '192.0.2.1', port: 80, status: 'failing', reason: 'refused', at: Date.now() })
  await enforcement.apply(enforcement.plan([{ record, value }]), true, signal)
  assert.equal(health.counts().failing, 1)
  await enforcement.apply(enforcement.plan([{ record, value: { ...value, port: 81 } }]), true, signal)
  assert.equal(health.counts().failing, 0)
})

const newBackend = (): EdgeRecord => ({
  key: `backend.${newId('bkdst')}`,
  generation: 1,
  value: { host: '192.0.2.1', port: 80, tls: false },
})
const resolved = (record: EdgeRecord, address = '192.0.2.1') => ({ record, value: { ...record.value, address } })
const commandsOf = (told: readonly Command[][]) =>
  told.map((commands) => commands.map(({ kind, map }) => `${kind} ${map}`))

test('the proxy counts as ready once a complete state is known, and gets that command once', async () => {
  const { enforcement, claims, told } = start(new Map())
  claims.replace(enforcement.load([], false))
  const plan = () => enforcement.plan([])
  await enforcement.apply(plan(), false, signal)
  assert.deepEqual(told, [])
  await enforcement.apply(plan(), true, signal)
  await enforcement.apply(plan(), true, signal)
  assert.deepEqual(commandsOf(told), [['add node']])
  const complete = start(new Map())
  assert.deepEqual(
    [...complete.enforcement.load([], true)].map(({ map }) => map),
    ['node'],
  )
})

test('a change that the proxy rejects is tried again until it is in force, and reported until then', async () => {
  const record = newBackend()
  let failures = 2
  const applied: number[] = []
  const { enforcement, refusals } = start(new Map(), {
    proxy: {
      async apply({ set }) {
        if (failures-- > 0) throw new Error('no such map')
        applied.push(set.length)
      },
    },
  })
  await enforcement.apply(enforcement.plan([resolved(record)]), false, signal)
  assert.deepEqual(applied, [1])
  assert.deepEqual(
    refusals.latest().map(({ key, reason }) => [key, reason]),
    [['proxy', 'no such map']],
  )
  failures = Number.POSITIVE_INFINITY
  const ending = new AbortController()
  const stuck = enforcement.apply(enforcement.plan([resolved(record, '192.0.2.9')]), false, ending.signal)
  ending.abort()
  await stuck
  assert.deepEqual(applied, [1], 'an agent that ends does not wait for it')
})

test('a record that cannot be applied at the start is refused, and the others are loaded', () => {
  const [wrong, right] = [newBackend(), newBackend()]
  const { enforcement, refusals } = start(new Map())
  const loaded = [
    ...enforcement.load([resolved(wrong, 'nowhere'), resolved(right), { record: wrong, value: null }], false),
  ]
  assert.deepEqual(
    loaded.map(({ key }) => `backend.${key}`),
    [right.key],
  )
  assert.deepEqual([...refusals.records.keys()], [wrong.key])
  enforcement.plan([resolved(right, 'nowhere')])
  assert.equal(refusals.records.get(right.key)?.generation, 1, 'the same later')
})

test('a record that is shadowed by another is refused until what shadows it is gone', async () => {
  const [first, second] = [newBackend(), newBackend()]
  const known = new Map([first, second].map((record) => [record.key, record]))
  const shadowed = new Map<string, string>()
  const { enforcement, refusals } = start(known, { proxy: { shadowed: ({ key }) => shadowed.get(key) } })
  const reasons = () => [...refusals.records].map(([key, { reason }]) => [key, reason])
  shadowed.set(first.key.slice('backend.'.length), 'another has its name')
  await enforcement.apply(enforcement.plan([resolved(first), resolved(second)]), true, signal)
  assert.deepEqual(reasons(), [[first.key, 'another has its name']])
  shadowed.clear()
  await enforcement.apply(enforcement.plan([resolved(second)]), true, signal)
  assert.equal(reasons().length, 1, 'nothing has changed that could have shadowed it')
  await enforcement.apply(enforcement.plan([resolved(second, '192.0.2.2')]), true, signal)
  assert.deepEqual(reasons(), [])
})

test('a record that was refused, and not for being shadowed, stays refused when others change', async () => {
  const [refused, other] = [newBackend(), newBackend()]
  const { enforcement, refusals } = start(new Map([[refused.key, refused]]))
  refusals.refuse({ key: refused.key, generation: 2, reason: 'of a later version' })
  refusals.refuse({ key: newBackend().key, generation: 1, reason: 'unknown' })
  await enforcement.apply(enforcement.plan([resolved(refused), resolved(other)]), true, signal)
  assert.equal(refusals.records.size, 2)
})

for (const openConnections of ['keep', 'close'] as const)
  test(`connections of changed edges stay open or are closed as the operator has set it: ${openConnections}`, async () => {
    const id = newId('bkdst')
    const backend: EdgeRecord = { ...newBackend(), key: `backend.${id}` }
    const edge: EdgeRecord = {
      key: `tcp.${newId('edgtcp')}`,
      generation: 1,
      value: { hostports: ['a.test:5000'], account: newId('ac'), backend: id },
    }
    const known = new Map([edge, backend].map((record) => [record.key, record]))
    const asked: (readonly string[])[] = []
    let isFailing = true
    const closeSessions: Enforcer['closeSessions'] = async (targets) => {
      asked.push(targets)
      if (isFailing) throw new Error('no answer')
      return 1
    }
    const { enforcement, refusals } = start(known, { openConnections, proxy: { closeSessions } })
    const close = () => enforcement.closeConnections()
    await close()
    assert.deepEqual(asked, [], 'nothing has changed')
    await enforcement.apply(enforcement.plan([resolved(backend, '192.0.2.2')]), true, signal)
    const target = edge.key.slice('tcp.'.length)
    assert.deepEqual([...enforcement.unclosed()], openConnections === 'close' ? [target] : [])
    await close()
    isFailing = false
    await close()
    await close()
    assert.deepEqual(asked, openConnections === 'close' ? [[target], [target]] : [])
    assert.equal(enforcement.unclosed().size, 0)
    const reasons = refusals.latest().map(({ reason }) => reason)
    assert.deepEqual(reasons, openConnections === 'close' ? ['cannot close open connections: no answer'] : [])
  })
