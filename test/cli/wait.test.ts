// `--wait applied` succeeds only if the change is in force somewhere.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createClient } from '../../clients/typescript/src/client.ts'
import { exits } from '../../src/cli/exits.ts'
import { startInstallation } from '../harness/edge.ts'
import { cliFor } from './harness.ts'

const installation = await startInstallation({ after })
const cli = cliFor(installation, installation.admin)
let port = installation.tcpPorts.first
const create = (...flags: string[]) =>
  cli(['edges', 'tcp', 'create', '--hostports', `tcp.example:${port++}`, '-o', 'ids', ...flags])
const apply = (...flags: string[]) =>
  cli(['state', 'apply', '-', ...flags], {
    input: `gatehouse: 1\ntcp_edges:\n  db: {hostports: [db.example:${port++}]}\n`,
  })

test('without a live node it fails with a code of its own, and the change is made', async () => {
  const { code, stdout, stderr } = await create('--wait', 'applied')
  assert.equal(code, exits.tooFewNodes.code, stderr)
  assert.match(stdout, /^edgtcp_\w+\n$/)
  assert.match(stderr, /The change was made, but no edge node is live, so it is not known to be in force anywhere/)
  assert.match(stderr, /gatehouse generations get \d+/)
  const applied = await apply('--wait', 'applied')
  assert.equal(applied.code, exits.tooFewNodes.code, applied.stderr)
})

test('--min-nodes 0 accepts that there are none, and --min-nodes needs a number and something to wait for', async () => {
  const { code, stderr } = await create('--wait', 'applied', '--min-nodes', '0')
  assert.equal(code, 0, stderr)
  for (const flags of [
    ['--min-nodes', '1'],
    ['--wait', 'applied', '--min-nodes', 'two'],
  ]) {
    assert.equal((await create(...flags)).code, exits.usage.code)
    assert.equal((await apply(...flags)).code, exits.usage.code)
  }
})

test('with a live node it succeeds, unless more are asked for', async () => {
  await installation.startEdge()
  const { code, stderr } = await create('--wait', 'applied')
  assert.equal(code, 0, stderr)
  assert.match(stderr, /^applied on 1\/1 live edge nodes$/m)
  const few = await create('--wait', 'applied', '--min-nodes', '2')
  assert.equal(few.code, exits.tooFewNodes.code, few.stderr)
  assert.match(few.stderr, /only 1 edge node is live, and --min-nodes is 2/)
  assert.equal((await apply('--wait', 'applied')).code, 0)
  const client = createClient({ url: installation.processes[0]?.origin ?? '', apiKey: installation.admin.token })
  const { response } = await client.POST('/edges/tcp', { body: { hostports: [`tcp.example:${port++}`] } })
  assert.equal((await client.waitApplied(response))?.live, 1)
  const tooFew = await apply('--wait', 'applied', '--min-nodes', '2', '--timeout', '4')
  assert.equal(tooFew.code, exits.tooFewNodes.code, tooFew.stderr)
})
