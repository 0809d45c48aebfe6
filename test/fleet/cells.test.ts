// Two cells with a node each: a node gets what its cell serves, and nothing of the accounts of the other.
import assert from 'node:assert/strict'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { jetstream } from '@nats-io/jetstream'
import { Kvm } from '@nats-io/kv'
import { one, run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { transaction } from '../../src/db/transaction.ts'
import { channelsOf } from '../../src/distribution/channels.ts'
import { controlPlaneUser } from '../../src/fleet/nats_accounts.ts'
import { type Id, toUuid, type Uuid } from '../../src/kernel/ids.ts'
import { type Cell, defaultCell, placeAccount } from '../../src/operations/placement.ts'
import { startHttpUpstream } from '../agent/http_harness.ts'
import { make, newHttpsEdge } from '../harness/fixtures.ts'
import { holdsFor, poll } from '../harness/poll.ts'
import { statusOf } from '../upgrade/installation.ts'
import { startJoining } from './joining.ts'
import { connectWith } from './operator_nats.ts'

const file = { after: (cleanUp: () => Promise<void>) => after(cleanUp) }
const fleet = await startJoining(file)
await fleet.untilReady()
const eu = await newCell('eu')
const [home, away] = [await startNode('edge-home', defaultCell), await startNode('edge-eu', eu)]
const web = await startHttpUpstream(file, 'web')
const control = await connectWith(file, fleet.nats, controlPlaneUser(fleet.operator, Date.now()))

async function newCell(name: string): Promise<Cell> {
  const cell = await one<Cell>(
    fleet.db,
    sql`
    with made as (insert into cells (name) values (${name}) returning id, name),
    state as (insert into publisher_state (cell_id, cursor) select id, settled_generation() from made),
    delivery as (insert into delivery_key (cell_id, epoch) select id, 0 from made)
    select id, name from made`,
  )
  return cell
}

async function startNode(name: string, cell: Cell) {
  const machine = await fleet.joinMachine(await fleet.invite(name, cell))
  assert.equal(machine.code, 0, machine.stderr)
  return fleet.startJoined(machine)
}

async function newTenant(host: string, ...cells: Cell[]) {
  const client = await fleet.newAccount()
  const accountId = toUuid(client.accountId as Id<'ac'>)
  if (cells.length > 0) {
    await place(accountId, cells)
    await leftDefault(accountId)
  }
  const backend = { backend_id: (await make(client, '/backends/static', { address: `127.0.0.1:${web.port}` })).id }
  const policy = await make(client, '/ip_policies', { description: `guards ${host}` })
  await make(client, '/ip_policy_rules', { ip_policy_id: policy.id, cidr: '127.0.0.0/8', action: 'allow' })
  const edge = await newHttpsEdge(client, { hostports: [`${host}:443`] })
  const restriction = { ip_policy_ids: [policy.id] }
  const route = { match_type: 'path_prefix', match: '/', backend, ip_restriction: restriction }
  await make(client, `${edge.uri}/routes`, route)
  return { client, accountId, host, edge, policy, place: (...to: Cell[]) => place(accountId, to) }
}
type Tenant = Awaited<ReturnType<typeof newTenant>>
const place = (accountId: Uuid, to: Cell[]) => transaction(fleet.db, (tx) => placeAccount(tx, accountId, to))

/** Nodes of the old cell are told what to remove, by id, of all that an account has by then: even of what it has just made. */
const leftDefault = (accountId: Uuid) =>
  poll(
    () =>
      one<{ isSent: boolean }>(
        fleet.db,
        sql`
        select cursor >= (select max(generation) from outbox where account_id = ${accountId}) as "isSent"
        from publisher_state where cell_id = ${defaultCell.id}`,
      ),
    ({ isSent }) => isSent,
  )

type Node = typeof home
const status = (node: Node, host: string) => statusOf(node.httpsPort, host, '127.0.0.1', '/')
const served = (node: Node, host: string) =>
  poll(
    () => status(node, host),
    (found) => found === 200,
  )
const unknown = (node: Node, host: string) =>
  poll(
    () => status(node, host),
    (found) => found !== 200,
  )

/** Everything that the bucket of a cell has, and everything on the disk of a node, as one text. */
async function bucketText(cell: Cell): Promise<string> {
  const found: string[] = []
  const channels = channelsOf(cell.name)
  for (const name of [channels.records, channels.blobs]) {
    const bucket = await new Kvm(jetstream(control)).open(name)
    for await (const key of await bucket.keys()) found.push(key, (await bucket.get(key))?.string() ?? '')
  }
  return found.join('\n')
}
async function diskText({ folder }: Node): Promise<string> {
  const files = await readdir(folder, { recursive: true, withFileTypes: true })
  const texts = files
    .filter((entry) => entry.isFile())
    .map((entry) => readFile(join(entry.parentPath, entry.name), 'latin1').catch(() => ''))
  return (await Promise.all(texts)).join('\n')
}
/** What tells of a tenant: its host name and every id of what it has. */
const traces = ({ host, edge, policy, client }: Tenant): string[] => [host, edge.id, policy.id, client.accountId]

async function assertNothingOf(tenant: Tenant, node: Node, cell: Cell): Promise<void> {
  const text = (await bucketText(cell)) + (await diskText(node))
  assert.deepEqual(
    traces(tenant).filter((trace) => text.includes(trace)),
    [],
  )
}

const changeApplied = async ({ client, edge: { uri } }: Tenant) => {
  const answer = await client('PATCH', `${uri}?wait=applied`, { description: `changed at ${Date.now()}` })
  assert.equal(answer.status, 200)
  return answer
}

test('a node serves the accounts of its cell, and has no trace of the others in its bucket, on its disk or in HAProxy', async () => {
  const [alice, bob] = [await newTenant('alice.example'), await newTenant('bob.example', eu)]
  await served(home, alice.host)
  await served(away, bob.host)
  await holdsFor(1_500, async () => (await status(home, bob.host)) !== 200 && (await status(away, alice.host)) !== 200)
  await assertNothingOf(alice, away, eu)
  await assertNothingOf(bob, home, defaultCell)
  // The check is able to find something.
  await assert.rejects(assertNothingOf(bob, away, eu))
  await assert.rejects(assertNothingOf(alice, home, defaultCell))

  // What the others delete does not show either, not even by its id.
  await alice.client('DELETE', alice.edge.uri)
  await unknown(home, alice.host)
  await changeApplied(bob)
  await assertNothingOf(alice, away, eu)
})

test('a change waits for the nodes of its own cells', async () => {
  const carol = await newTenant('carol.example', eu)
  await served(away, carol.host)
  home.child.kill('SIGSTOP')
  try {
    const { headers } = await changeApplied(carol)
    assert.equal(headers.get('service-applied'), '1/1')
  } finally {
    home.child.kill('SIGCONT')
  }
})

test('an account moves to another cell without a failed request, and leaves nothing behind', async () => {
  const dora = await newTenant('dora.example')
  await served(home, dora.host)
  let failed = 0
  let isServedBy: Node = home
  const moving = new AbortController()
  const traffic = (async () => {
    while (!moving.signal.aborted) if ((await status(isServedBy, dora.host)) !== 200) failed++
  })()
  await dora.place(defaultCell, eu)
  await served(away, dora.host)
  await changeApplied(dora)
  isServedBy = away
  await changeApplied(dora)
  await dora.place(eu)
  await unknown(home, dora.host)
  await changeApplied(dora)
  moving.abort()
  await traffic
  assert.equal(failed, 0)
  assert.ok(!(await bucketText(defaultCell)).includes(dora.host))
})

test('what is deleted while its account leaves a cell does not stay there', async () => {
  const erin = await newTenant('erin.example', defaultCell, eu)
  await served(home, erin.host)
  await served(away, erin.host)
  await Promise.all([erin.place(defaultCell), erin.client('DELETE', erin.edge.uri)])
  await unknown(away, erin.host)
  await unknown(home, erin.host)
  assert.ok(!(await bucketText(eu)).includes(erin.host))
})

test('an edge that names cells is served there only', async () => {
  const finn = await newTenant('finn.example', defaultCell, eu)
  await served(home, finn.host)
  const setCells = (cells: string[] | null) =>
    transaction(fleet.db, async (tx) => {
      await run(tx, sql`update edges set cells = ${cells} where id = ${toUuid(finn.edge.id)}`)
      await run(
        tx,
        sql`
        insert into outbox (generation, account_id, key)
        select g, e.account_id, key from edges e, next_generation() g,
          lateral (values (${`https.${finn.edge.id}`})) as k (key) where e.id = ${toUuid(finn.edge.id)}`,
      )
    })
  await setCells(['eu'])
  await unknown(home, finn.host)
  await served(away, finn.host)
  await setCells(null)
  await served(home, finn.host)
})

test('the key that encrypts certificates for one cell cannot decrypt those of another', async () => {
  await poll(
    () =>
      one<{ ids: number }>(
        fleet.db,
        sql`select count(distinct delivery_key_id) as ids from edge_node_keys where accepted and sealed is not null`,
      ),
    ({ ids }) => ids === 2,
  )
  const inEu = await bucketText(eu)
  assert.ok(inEu.includes('edge-eu') && !inEu.includes('edge-home'))
})
