import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { openPolicyFiles } from '../src/agent/disk/policy_files.ts'
import { createExpiries } from '../src/agent/expiry.ts'
import { openPool, run } from '../src/db/pool.ts'
import { sql } from '../src/db/sql.ts'
import { blobName } from '../src/distribution/pieces.ts'
import type { EdgeRecord, PolicyRecord } from '../src/distribution/records.ts'
import { rfc3339 } from '../src/kernel/clock.ts'
import { newUuid, toId } from '../src/kernel/ids.ts'
import { canonicalCidr } from '../src/kernel/ip/canonical_cidr.ts'
import { defaultCell } from '../src/operations/placement.ts'
import { compileRecords } from '../src/publisher/records/compile.ts'
import { makeWorld, seededRandom } from './deciders/cases.ts'
import { newDatabase } from './harness/control_plane.ts'
import { sized } from './harness/thorough.ts'

const pool = openPool(
  { url: await newDatabase(), poolSize: 4, connectTimeoutMs: 60_000, statementTimeoutMs: 60_000 },
  () => {},
)
after(() => pool.end())
const accountId = newUuid()
await run(pool, sql`insert into accounts (id, name) values (${accountId}, 'expiring')`)
const silent = { info() {}, warn() {}, error() {} } as unknown as Parameters<typeof createExpiries>[0]['log']

test('a node makes the same files of a policy, at any moment, as the control plane does', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-expiry-'))
  t.after(() => rm(folder, { recursive: true }))
  const seed = Number(process.env.GATEHOUSE_TEST_SEED ?? Date.now() % 1_000_000)
  const random = seededRandom(seed)
  const pieces = new Map<string, Buffer>()
  const policyFiles = await openPolicyFiles(join(folder, 'policies'), join(folder, 'pieces'), async (name) =>
    pieces.get(name),
  )
  let moments = 0
  for (let scenario = 0; scenario < sized(15, 300); scenario++) {
    const start = Date.now()
    const policy = newUuid()
    await run(pool, sql`insert into ip_policies (account_id, id) values (${accountId}, ${policy})`)
    const rules = Array.from({ length: 3 }, () => makeWorld(random).policies.flat()).flat()
    for (const [cidr, { action }] of new Map(rules.map((rule) => [canonicalCidr(rule.cidr), rule]))) {
      const expires = random(2) ? rfc3339(start + random(10) * 1_000) : null
      await run(
        pool,
        sql`insert into ip_policy_rules (account_id, id, ip_policy_id, action, cidr, expires_at)
        values (${accountId}, ${newUuid()}, ${policy}, ${action}, ${cidr}, ${expires})`,
      )
    }
    const key = `policy.${toId('ipp', policy)}` as const
    const recordAt = async (now: number, maxMessageBytes?: number) => {
      // So small that all files come in pieces.
      const means = maxMessageBytes === undefined ? {} : { maxMessageBytes }
      const [record] = await compileRecords(pool, defaultCell, [{ key, accountId }], now, means)
      assert.ok(record)
      for (const blob of record.blobs) pieces.set(blobName(blob), blob)
      return record
    }
    const filesOf = ({ value, rules: named }: Pick<EdgeRecord, 'value' | 'rules'>) => [
      (value as PolicyRecord).hash,
      named?.hash,
    ]
    let now = start
    const expiries = createExpiries({ log: silent, policyFiles, clock: () => now })
    const { blobs: _, ...sent } = await recordAt(start)
    const record: EdgeRecord = { ...sent, generation: 1 }
    await expiries.prepare(record)
    for (let step = 0; step < 12; step++) {
      now += random(2_000)
      if (random(4) === 0) now = start + Math.floor((now - start) / 1_000) * 1_000
      if (expiries.isDue(key)) await expiries.prepare(record)
      const made = expiries.filesOf(key)
      assert.deepEqual(
        made ?? filesOf(record),
        filesOf(await recordAt(now)),
        `seed ${seed}, ${scenario}, ${now - start} ms`,
      )
      if (made) moments++
    }
  }
  t.diagnostic(`seed ${seed}: ${moments} moments with files made by the node`)
  assert.ok(moments > 20)
})
