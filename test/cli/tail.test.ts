import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { after, test } from 'node:test'
import { startNats } from '../../dev/nats.ts'
import { exits } from '../../src/cli/exits.ts'
import { defaultChannels } from '../../src/distribution/channels.ts'
import { readWatches, type Watch } from '../../src/distribution/watches.ts'
import { startControlPlane } from '../harness/control_plane.ts'
import { connectNode, edgeRequest } from '../harness/edge_requests.ts'
import { newHttpsEdge } from '../harness/fixtures.ts'
import { poll } from '../harness/poll.ts'
import { cliFor } from './harness.ts'

const nats = await startNats()
after(() => nats.stop())
const plane = await startControlPlane({ after }, { env: nats.controlPlane })
const { nats: node, deliver } = await connectNode({ after }, nats.url)
const admin = await plane.newAccount()
const edge = await newHttpsEdge(admin)
let watches: Watch[] = []
node.subscribe(defaultChannels.watches, {
  callback: (_, message) => {
    watches = readWatches(message.string())?.watches ?? []
  },
})
await node.flush()

/** The command, left running. */
function follow(args: string[], env: Record<string, string>) {
  const main = new URL('../../src/main.ts', import.meta.url).pathname
  const child = spawn(process.execPath, [main, ...args], { env: { ...process.env, ...env } })
  after(async () => void child.kill())
  const printed = { stdout: '', stderr: '' }
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    printed.stdout += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    printed.stderr += text
  })
  return { child, printed, ended: once(child, 'exit') }
}

test('tail prints requests as they happen, as lines or as JSON, and ends when its key is gone', async () => {
  const { body: key } = await admin('POST', '/api_keys', {})
  const cli = cliFor(plane, { token: key.token })
  const plain = follow(['tail', '--edge', edge.id, '--refused', '--address', '192.0.2.0/24'], cli.env)
  const json = follow(['tail', '--json'], cli.env)
  const asOperation = follow(['requests', 'stream', '--output', 'json'], cli.env)
  const all = await poll(
    () => watches,
    (told) => told.length === 3,
  )
  assert.ok(
    all.some((watch) => watch.edge === edge.id && watch.outcome === 'refused' && watch.source === '192.0.2.0/24'),
  )
  const request = edgeRequest(admin, edge, { path: '/\u001b[31m' })
  const shown = edgeRequest(admin, edge)
  const lines = [request, shown].map((each) => ({ watches: all.map(({ id }) => id), request: each }))
  const dropped = all.map(({ id }) => ({ watch: id, count: 12 }))
  node.publish(defaultChannels.tail('edge-1'), JSON.stringify({ node: 'edge-1', lines, dropped }))
  await poll(() => plain.printed.stdout.includes(shown.id) && plain.printed.stderr.includes('12 more requests'))
  const line = plain.printed.stdout.trimEnd()
  assert.equal(
    line.split('  ').slice(1, 5).join(' ').replaceAll(/ +/g, ' '),
    'refused 403 192.0.2.1 GET shop.example/cart',
  )
  // Nothing unprintable gets this far, and a pipe gets no colors.
  assert.ok(!plain.printed.stdout.includes('\u001b'))
  for (const { printed } of [json, asOperation]) {
    await poll(() => printed.stdout.includes(shown.id))
    assert.equal(JSON.parse(printed.stdout).id, shown.id)
  }
  assert.equal((await admin('DELETE', key.uri)).status, 204)
  for (const { ended, printed } of [plain, json]) {
    assert.deepEqual((await ended)[0], exits.notAllowed.code)
    assert.match(printed.stderr, /may no longer read it/)
  }
})

test('tail refuses unknown flags before it connects, and explains a wrong filter', async () => {
  const cli = cliFor(plane, admin)
  const help = await cli.ok(['tail', '--help'])
  for (const flag of ['--edge', '--refused', '--address', '--json']) assert.ok(help.includes(flag))
  const usage = await cli(['tail', '--refused', '--outcome', 'failed'])
  assert.equal(usage.code, exits.usage.code)
  assert.equal((await cli(['tail', '--sideways'])).code, exits.usage.code)
  const refused = await cli(['tail', '--address', '10.0.0.1/8'])
  assert.equal(refused.code, exits.refused.code)
  assert.match(refused.stderr, /host bits/)
})

test('requests get and list find what was refused', async () => {
  const request = edgeRequest(admin, edge)
  await deliver([request])
  const cli = cliFor(plane, admin)
  const found = await cli.ok(['requests', 'get', request.id])
  for (const part of [request.id, edge.id, 'refused', '192.0.2.1', 'edge-1']) assert.ok(found.includes(part), found)
  const list = await cli.ok(['requests', 'list', '--source-ip', '192.0.2.1', '--output', 'ids'])
  assert.equal(list.trim(), request.id)
})
