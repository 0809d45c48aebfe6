import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { openControlPlane } from './control_plane.ts'
import type { Answer } from './dns.ts'

type World = Record<string, Answer>
const dnsOf = (world: World) => ({ lookUp: async (name: string) => world[name] ?? 'absent', stop: () => {} })

async function opener(t: TestContext) {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-control-plane-'))
  t.after(() => rm(folder, { recursive: true }))
  const unresolved: string[] = []
  const open = async (...views: World[]) => {
    const opened = await openControlPlane({
      hosts: [
        { host: 'nats-1', ports: [4222] },
        { host: '192.0.2.9', ports: [4222] },
        { host: 'api.example', ports: [] },
      ],
      file: join(folder, 'control_plane.json'),
      dns: views.map(dnsOf),
      onUnresolved: (host) => unresolved.push(host),
      onError: (error) => assert.fail(error),
    })
    t.after(opened.stop)
    return opened
  }
  return { open, unresolved }
}

test('the control plane is known by all addresses of its names, in every view of DNS', async (t) => {
  const { open, unresolved } = await opener(t)
  const { services } = await open(
    { 'nats-1': { addresses: ['10.0.0.5', 'fd00::5'] }, 'api.example': { addresses: ['203.0.113.8'] } },
    { 'api.example': { addresses: ['10.0.0.8'] } },
  )
  assert.deepEqual(services(), [
    { address: '10.0.0.5', ports: [4222] },
    { address: 'fd00::5', ports: [4222] },
    { address: '192.0.2.9', ports: [4222] },
    { address: '10.0.0.8', ports: [] },
    { address: '203.0.113.8', ports: [] },
  ])
  assert.deepEqual(unresolved, [])
})

test('a node that starts without DNS knows the addresses of the control plane from before', async (t) => {
  const { open, unresolved } = await opener(t)
  const world: World = { 'nats-1': { addresses: ['10.0.0.5'] } }
  const first = await open(world)
  await first.stop()
  assert.deepEqual(unresolved, ['api.example'])
  const second = await open({ 'nats-1': 'silent', 'api.example': 'silent' })
  assert.deepEqual(
    second.services().map(({ address }) => address),
    ['10.0.0.5', '192.0.2.9'],
  )
})
