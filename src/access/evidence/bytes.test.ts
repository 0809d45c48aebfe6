import assert from 'node:assert/strict'
import { test } from 'node:test'
import { newDatabase } from '../../../test/harness/control_plane.ts'
import { one, openPool } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { rfc3339 } from '../../kernel/clock.ts'
import { compareAddresses, formatAddress } from '../../kernel/ip/address.ts'
import { addressesOf, momentAt } from './bytes.ts'

const ips = [
  '0.0.0.0',
  '10.0.0.1',
  '127.255.255.255',
  '128.0.0.0',
  '255.255.255.255',
  '::',
  '::1',
  '2001:db8::ff',
  'ff00::',
]
const times = [
  '1999-12-31T23:59:59.999Z',
  '2000-01-01T00:00:00.000Z',
  '2026-11-15T02:00:00.123Z',
  '2200-01-01T00:00:00.001Z',
]

test('addresses and times are read from the bytes that PostgreSQL sends, and addresses have its order', async (t) => {
  const url = await newDatabase()
  const pool = openPool({ url, poolSize: 1, connectTimeoutMs: 10_000, statementTimeoutMs: 10_000 }, () => {})
  t.after(() => pool.end())
  const bytes = await one<{ ips: Buffer; times: Buffer; mapped: Buffer }>(
    pool,
    sql`
    select
      (select string_agg(inet_send(ip), ''::bytea order by ip) from unnest(${ips.toReversed()}::inet[]) ip) as ips,
      (select string_agg(timestamptz_send(at), ''::bytea order by at) from unnest(${times}::timestamptz[]) at) as times,
      inet_send('::ffff:192.0.2.1') as mapped`,
  )
  const addresses = addressesOf(bytes.ips)
  assert.deepEqual(addresses.map(formatAddress), ips)
  assert.deepEqual(addresses.toReversed().sort(compareAddresses), addresses)
  assert.deepEqual(
    times.map((_, index) => rfc3339(momentAt(bytes.times, index))),
    times,
  )
  assert.deepEqual(addressesOf(bytes.mapped).map(formatAddress), ['192.0.2.1'])
  assert.deepEqual(addressesOf(Buffer.alloc(0)), [])
})
