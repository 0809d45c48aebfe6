// Events of nodes that found their HAProxy changed.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { openPool, run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { latestFleetEvents } from '../../src/fleet/node_store.ts'
import { recordProxyChange } from '../../src/fleet/proxy_changes.ts'
import { rfc3339 } from '../../src/kernel/clock.ts'
import { newDatabase } from '../harness/control_plane.ts'

const db = openPool(
  { url: await newDatabase(), poolSize: 2, connectTimeoutMs: 10_000, statementTimeoutMs: 10_000 },
  () => {},
)
after(() => db.end())

const minutesAgo = (minutes: number) => rfc3339(Date.now() - minutes * 60_000)
const events = async () => (await latestFleetEvents(db, 100)).map(({ operation, node }) => `${operation} ${node}`)

test('a change of HAProxy is one event, however many publishers note it, and a node causes one an hour', async () => {
  const since = minutesAgo(1)
  for (let publisher = 0; publisher < 3; publisher++) await recordProxyChange(db, 'edge-1', since)
  await recordProxyChange(db, 'edge-2', since)
  assert.deepEqual(await events(), ['proxy_changed edge-2', 'proxy_changed edge-1'])
  await recordProxyChange(db, 'edge-1', minutesAgo(0))
  assert.equal((await events()).length, 2)

  await run(db, sql`update fleet_events set at = at - interval '2 hours'`)
  // It differs since before that event: this is the same change still.
  await recordProxyChange(db, 'edge-1', minutesAgo(180))
  assert.equal((await events()).length, 2)
  await recordProxyChange(db, 'edge-1', minutesAgo(0))
  assert.deepEqual(await events(), ['proxy_changed edge-1', 'proxy_changed edge-2', 'proxy_changed edge-1'])
})
