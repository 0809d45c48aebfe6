import assert from 'node:assert/strict'
import { test } from 'node:test'
import { jetstream } from '@nats-io/jetstream'
import { Kvm } from '@nats-io/kv'
import { startNats } from '../dev/nats.ts'
import { defaultChannels } from '../src/distribution/channels.ts'
import { addSigningKey } from '../src/publisher/signing_keys.ts'
import { type ServeProcess, secretsBox, startControlPlane } from './harness/control_plane.ts'
import { connectAsControlPlane } from './harness/nats.ts'
import { poll } from './harness/poll.ts'
import { startTcpProxy } from './harness/tcp_proxy.ts'

const isActive = async ({ origin }: ServeProcess) =>
  /^gatehouse_publisher_active\{cell="default"\} 1$/m.test(await (await fetch(`${origin}/metrics`)).text())

test('a process with NATS takes over from one that lost it, and changes reach the bucket', async (t) => {
  const nats = await startNats()
  t.after(() => nats.stop())
  const proxy = await startTcpProxy(t, nats.url)
  const plane = await startControlPlane(t, { env: { ...nats.controlPlane, GATEHOUSE_NATS_URL: proxy.url } })
  await addSigningKey(plane.db, secretsBox)
  const [first] = plane.processes
  assert.ok(first)
  await poll(() => isActive(first))
  const second = await plane.startProcess({ GATEHOUSE_NATS_URL: nats.url })
  await proxy.cut()
  await poll(() => isActive(second), Boolean, { withinSeconds: 30 })
  assert.equal(await isActive(first), false)
  const account = await plane.newAccount()
  const { body } = await account('POST', '/backends/static', { address: 'a.example:80' })
  const connection = await connectAsControlPlane(t, nats)
  const bucket = await new Kvm(jetstream(connection)).open(defaultChannels.records)
  await poll(() => bucket.get(`backend.${body.id}`))
  // Back again, it stands by.
  await proxy.heal()
  await poll(() => first.log.filter(({ msg }) => msg === 'connected to NATS').length === 2)
  assert.equal(await isActive(second), true)
})
