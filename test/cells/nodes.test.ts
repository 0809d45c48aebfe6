// Which nodes an account sees.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { startNats } from '../../dev/nats.ts'
import { createCell } from '../../src/commands/cells/cells.ts'
import { place } from '../../src/commands/cells/placement.ts'
import { run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { toUuid } from '../../src/kernel/ids.ts'
import { type Account, startControlPlane } from '../harness/control_plane.ts'
import { poll } from '../harness/poll.ts'

const nats = await startNats()
after(() => nats.stop())
const joinedAt = '2026-01-31T12:00:00.000Z'

/** The process reads the nodes soon after its start. They are live for an hour, without a report. */
const plane = await startControlPlane(
  { after },
  {
    env: nats.controlPlane,
    async prepare(db) {
      await createCell(db, { name: 'eu', isDefault: false, confirmed: false })
      const eu = sql`(select id from cells where name = 'eu')`
      await run(
        db,
        sql`
        insert into fleet_nodes (nats_account, name, nats_user, node_key, joined_at, revoked_at, cell_id) values
          ('A', 'far', 'U', 'key', ${joinedAt}, null, ${eu}), ('B', 'gone', 'U', 'key', ${joinedAt}, now(), ${eu})`,
      )
      await run(
        db,
        sql`
        insert into edge_nodes (name, version, applied_generation, records, refusals, started_at, last_seen_at, cell_id)
        select name, '0.2.0', 0, 0, '[]', now(), now() + interval '1 hour', cell_id
        from (values ('near', 1), ('far', ${eu}), ('gone', ${eu})) as node (name, cell_id)`,
      )
    },
  },
)
const shown = async (account: Account) => {
  const { body } = await account('GET', '/edge_nodes')
  return body.edge_nodes.map((node: Record<string, unknown>) => [node.name, node.cell, node.joined_at])
}
const liveNodes = async (account: Account) => (await account('GET', '/cells')).body.cells

test('an account sees the nodes of its cells, and no others', async () => {
  const [here, there, both] = [await plane.newAccount(), await plane.newAccount(), await plane.newAccount()]
  const placing = ({ accountId }: Account, ...names: string[]) =>
    place(plane.db, { id: toUuid(accountId as `ac_${string}`), name: 'it' }, names, false)
  await placing(there, 'eu')
  await placing(both, 'default', 'eu')
  const [near, far] = [
    ['near', 'default', null],
    ['far', 'eu', joinedAt],
  ]
  const gone = ['gone', 'eu', joinedAt]
  await poll(async () => (await shown(both)).length === 3)
  assert.deepEqual(await shown(here), [near])
  assert.deepEqual(await shown(there), [far, gone])
  assert.deepEqual(await shown(both), [far, gone, near])
  assert.deepEqual(await liveNodes(here), [{ name: 'default', live_nodes: 1, counted_nodes: null }])
  assert.deepEqual(await liveNodes(both), [
    { name: 'default', live_nodes: 1, counted_nodes: null },
    { name: 'eu', live_nodes: 2, counted_nodes: null },
  ])
  await placing(there)
  assert.deepEqual(await shown(there), [near], 'from the next request on')
})

test('a node of another cell cannot say that it rejected a change', async () => {
  const account = await plane.newAccount()
  const created = await account('POST', '/edges/tcp', {})
  const generation = Number(created.headers.get('service-generation'))
  const refusals = JSON.stringify([{ key: `tcp.${created.body.id}`, generation, reason: 'no room', at: joinedAt }])
  await run(plane.db, sql`update edge_nodes set refusals = ${refusals} where name in ('near', 'far')`)
  // It reads what nodes have reported when it starts.
  await plane.startProcess()
  const client = plane.clientFor(account.token)
  const { body } = await poll(
    () => client('GET', `/generations/${generation}`, undefined, { process: 1 }),
    (answer) => answer.body.refusals.length > 0,
  )
  assert.deepEqual(
    body.refusals.map(({ node }: { node: string }) => node),
    ['near'],
  )
})
