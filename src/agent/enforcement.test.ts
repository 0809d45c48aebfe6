import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { EdgeRecord, RecordKey } from '../distribution/records.ts'
import { newId } from '../kernel/ids.ts'
import { systemTiming } from '../kernel/system_timing.ts'
import { createEnforcement } from './enforcement.ts'
import { Claims, type Command } from './haproxy/maps/claims.ts'
import { createRefusals } from './refusals.ts'
import { createHealth } from './reports/health.ts'

const silent = { info() {}, warn() {}, error() {} }
const { signal } = new AbortController()

/** The agent's part and HAProxy's, up to the commands that HAProxy would get. */
function start(known: ReadonlyMap<RecordKey, EdgeRecord>) {
  const claims = new Claims()
  const told: Command[][] = []
  const proxy = {
    apply: async (change: Parameters<Claims['change']>[0]) => void told.push(claims.change(change)),
    shadowed: () => undefined,
    closeSessions: async () => 0,
  }
  const refusals = createRefusals({ log: silent, clock: systemTiming.now, logged: new Map(), onChange() {} })
  const health = createHealth()
  const enforcement = createEnforcement(
    { log: silent, timing: systemTiming, known, openConnections: 'keep', refusals, health, retryMs: 1 },
    proxy,
  )
  return { enforcement, claims, told, health }
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
