import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import { test } from 'node:test'
import { startNats } from '../../dev/nats.ts'
import { freePort } from '../../dev/ports.ts'
import { reasonOf } from '../../src/distribution/nats_connection.ts'
import { checkNats } from '../../src/doctor/nats.ts'

const client = (port: number | string) => ({
  servers: [`nats://nats-1.example:${port}`],
  caFile: '',
  user: 'control-plane',
  password: 'control-plane',
})
/** A name with these addresses, without changing the DNS of this machine. */
const resolvesTo =
  (...addresses: string[]) =>
  async () =>
    addresses.map((address) => ({ address }))

test('a server that cannot be reached is reported with every address and its reason', async () => {
  const port = await freePort()
  const [found] = await checkNats(client(port), resolvesTo('127.0.0.1', '127.0.0.9'))
  assert.equal(found?.status, 'failed')
  assert.equal(
    found?.message,
    `cannot reach nats://nats-1.example:${port}: connect ECONNREFUSED 127.0.0.1:${port}, connect ECONNREFUSED 127.0.0.9:${port}`,
  )
})

test('a name that cannot be resolved is named', async () => {
  const [found] = await checkNats({ ...client(4222), servers: ['nats://nats.invalid:4222'] })
  assert.match(found?.message ?? '', /^cannot reach .*: the name nats\.invalid cannot be resolved \(E\w+\)$/)
})

test('a stale address beside a good one is a warning', async (t) => {
  const nats = await startNats()
  t.after(() => nats.stop())
  const { port } = new URL(nats.url)
  const found = await checkNats(client(port), resolvesTo('127.0.0.9', '127.0.0.1'))
  const stale = found.find(({ check }) => check === 'nats.addresses')
  assert.equal(stale?.status, 'warning', JSON.stringify(found))
  assert.equal(
    stale?.message,
    `NATS does not answer at every address of nats-1.example: connect ECONNREFUSED 127.0.0.9:${port}`,
  )
  assert.equal(found.find(({ check }) => check === 'nats.server')?.status, 'ok')
})

test('a server that stops between two checks is not said to refuse the password', async (t) => {
  const nats = await startNats()
  t.after(() => nats.stop())
  const front = createServer((socket) => {
    front.close()
    const back = connect(Number(new URL(nats.url).port), '127.0.0.1')
    socket
      .on('error', () => back.destroy())
      .pipe(back)
      .pipe(socket)
  }).listen(0, '127.0.0.1')
  await once(front, 'listening')
  const { port } = front.address() as { port: number }
  const found = await checkNats({ ...client(port), servers: [`nats://127.0.0.1:${port}`] })
  assert.deepEqual(found.map(({ check, status, message }) => [check, status, message]).at(-1), [
    'nats.server',
    'failed',
    `nats://127.0.0.1:${port} answers, and a connection as control-plane fails: connection refused (connect ECONNREFUSED 127.0.0.1:${port})`,
  ])
})

test('where all addresses of a name were tried, the reason names each', async () => {
  const port = await freePort()
  const addresses = ['127.0.0.1', '127.0.0.9'].map((address) => ({ address, family: 4 }))
  const socket = connect({ port, host: 'nats-1.example', lookup: (_host, _options, found) => found(null, addresses) })
  const [error] = await once(socket, 'error').catch((fault: Error) => [fault])
  const each = addresses.map(({ address }) => `connect ECONNREFUSED ${address}:${port}`).join(', ')
  assert.equal(reasonOf(error), each)
  assert.equal(reasonOf(new Error('connection refused', { cause: error })), `connection refused (${each})`)
})
