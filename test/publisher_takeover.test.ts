import assert from 'node:assert/strict'
import { hostname } from 'node:os'
import { test } from 'node:test'
import { jetstream } from '@nats-io/jetstream'
import { Kvm } from '@nats-io/kv'
import { startNats } from '../dev/nats.ts'
import { defaultChannels } from '../src/distribution/channels.ts'
import { addSigningKey } from '../src/publisher/signing_keys.ts'
import { gatehouse } from './harness/command.ts'
import { type ServeProcess, secretsBox, startControlPlane } from './harness/control_plane.ts'
import { connectAsControlPlane } from './harness/nats.ts'
import { poll } from './harness/poll.ts'
import { createCells, publishedBy } from './harness/publishers.ts'
import { startTcpProxy } from './harness/tcp_proxy.ts'

const isActive = async (process: ServeProcess) => (await publishedBy(process)).includes('default')

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

test('two processes share the cells, and each takes over when the other is killed or paused', async (t) => {
  const nats = await startNats()
  t.after(() => nats.stop())
  const plane = await startControlPlane(t, {
    env: nats.controlPlane,
    async prepare(db) {
      await createCells(db, 3)
      await addSigningKey(db, secretsBox)
    },
  })
  const [first] = plane.processes
  assert.ok(first)
  const all = ['cell-1', 'cell-2', 'cell-3', 'default']
  const hasAll = (process: ServeProcess) =>
    poll(
      () => publishedBy(process),
      (cells) => cells.length === all.length,
    )
  await hasAll(first)
  const second = await plane.startProcess()
  const shares = await poll(
    () => Promise.all([first, second].map(publishedBy)),
    ([one, other]) => one?.length === 2 && other?.length === 2,
  )
  assert.deepEqual(shares.flat().sort(), all)
  const { stdout } = await gatehouse(['cells', 'list'], { GATEHOUSE_DATABASE_URL: plane.databaseUrl })
  const lines = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { name: string; publisher: string | null })
  for (const { name, publisher } of lines)
    assert.equal(publisher, `${hostname()}:${(shares[0]?.includes(name) ? first : second).child.pid}`)

  // PostgreSQL ends the session of a process that is silent: its connection stays open.
  first.child.kill('SIGSTOP')
  await hasAll(second)
  first.child.kill('SIGCONT')
  await poll(
    () => publishedBy(first),
    (cells) => cells.length === 0,
  )
  second.child.kill('SIGKILL')
  await hasAll(first)

  // It goes on where the killed one was.
  const account = await plane.newAccount()
  const { body } = await account('POST', '/backends/static', { address: 'a.example:80' }, { process: 0 })
  const bucket = await new Kvm(jetstream(await connectAsControlPlane(t, nats))).open(defaultChannels.records)
  await poll(() => bucket.get(`backend.${body.id}`))
})
