import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import { text } from 'node:stream/consumers'
import { after, test } from 'node:test'
import { jetstreamManager } from '@nats-io/jetstream'
import pg from 'pg'
import { defaultChannels } from '../../src/distribution/channels.ts'
import { gatehouse } from '../harness/command.ts'
import { newDatabase, stop } from '../harness/control_plane.ts'
import { startInstallation } from '../harness/edge.ts'
import { connectAsControlPlane } from '../harness/nats.ts'
import { holdsFor, poll } from '../harness/poll.ts'

const installation = await startInstallation({ after })
const { admin, nats, clientFor, processes, databaseUrl, startProcess, startEdge } = installation
const { tcpPorts } = await startEdge()
let port = tcpPorts.first

/** A copy of the database at this moment, as a backup has it. The copied database may have no connections. */
async function copyOf(url: string): Promise<string> {
  const name = new URL(url).pathname.slice(1)
  const client = new pg.Client({ connectionString: url.replace(name, 'postgres') })
  await client.connect()
  await client.query('select pg_terminate_backend(pid) from pg_stat_activity where datname = $1', [name])
  await client.end()
  return newDatabase(name)
}
const latest = () => ({ process: processes.length - 1 })
/** Through a process that serves now: clients only know those that existed when they were created. */
const call = (method: string, path: string, body?: object) => clientFor(admin.token)(method, path, body, latest())
const upstream = createServer((socket) => socket.on('error', () => {}).end('hello')).listen(0, '127.0.0.1')
await once(upstream, 'listening')
after(() => upstream.close())
const address = `127.0.0.1:${(upstream.address() as AddressInfo).port}`

/** A TCP edge on its own port; resolves when the node has it. */
async function newEdge() {
  const { body: backend } = await call('POST', '/backends/static', { address })
  const fields = { hostports: [`127.0.0.1:${port++}`], backend: { backend_id: backend.id } }
  return call('POST', '/edges/tcp?wait=applied', fields)
}
/** Whether the node brings traffic from the edge's port to the upstream. */
async function serves(edge: { hostports: string[] }): Promise<boolean> {
  const socket = connect(Number(edge.hostports[0]?.split(':')[1]), '127.0.0.1')
  const heard = await text(socket).catch(() => '')
  return heard === 'hello'
}
/** Without a trace, unlike a deletion. */
async function dropFromBucket(key: string): Promise<void> {
  const { streams } = await jetstreamManager(await connectAsControlPlane({ after }, nats))
  const { purged } = await streams.purge(`KV_${defaultChannels.records}`, {
    filter: `$KV.${defaultChannels.records}.${key}`,
  })
  assert.equal(purged, 1)
}
const end = () => stop(processes.at(-1)?.child ?? assert.fail())
/** Until it has heard of the node: before that, no node is waited for. */
async function start(url: string): Promise<void> {
  await startProcess({ GATEHOUSE_DATABASE_URL: url })
  const heard = await poll(
    () => call('GET', '/edge_nodes'),
    ({ body }) => body.edge_nodes.some(({ live }: { live: boolean }) => live),
  )
  assert.ok(heard.body.edge_nodes[0]?.live, heard.text)
}
test('after a restore to an earlier point, edges follow the restored state', async () => {
  const kept = await newEdge()
  assert.equal(kept.headers.get('service-applied'), '1/1', kept.text)
  assert.ok(await serves(kept.body))
  await end()
  const backup = await copyOf(databaseUrl)

  // What the backup does not know: two edges that came, and one that went.
  await start(databaseUrl)
  // And far enough ahead that the restored numbers do not catch up by themselves.
  for (let i = 0; i < 40; i++) await call('PATCH', kept.body.uri, { description: `${i}` })
  const lost = [await newEdge(), await newEdge()]
  for (const { headers } of lost) assert.equal(headers.get('service-applied'), '1/1')
  const gone = await call('DELETE', `${kept.body.uri}?wait=applied`)
  assert.equal(gone.headers.get('service-applied'), '1/1')

  // A publisher that is killed at the wrong moment leaves this behind: the node has heard of an edge, the bucket has not.
  await end()
  const [, unheard] = lost
  await dropFromBucket(`tcp.${unheard?.body.id}`)
  await dropFromBucket(`backend.${unheard?.body.backend.backend.id}`)

  // Without the command the numbers begin again below what the node knows, and it does not listen.
  await start(backup)
  await call('PATCH', kept.body.uri, { description: 'told under an old number' })
  await holdsFor(3_000, async () => !(await serves(kept.body)) && (await serves(lost[0]?.body)))

  await end()
  const { code, stdout, stderr } = await gatehouse(['after-restore'], { GATEHOUSE_DATABASE_URL: backup })
  assert.equal(code, 0, stderr)
  const { generation, generation_before } = JSON.parse(stdout)
  assert.equal(generation - generation_before, 1_000_000_000)
  await start(backup)
  const heard = await newEdge()
  assert.equal(heard.headers.get('service-applied'), '1/1', heard.text)
  assert.ok(Number(heard.headers.get('service-generation')) > generation)
  // What was restored is there, with what came since; what the backup does not know is not.
  assert.ok(await poll(() => serves(kept.body), Boolean))
  assert.ok(await serves(heard.body))
  for (const { body } of lost)
    assert.ok(
      !(await poll(
        () => serves(body),
        (yes) => !yes,
      )),
    )
})
