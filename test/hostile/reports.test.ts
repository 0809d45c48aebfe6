// Row 14 of the security review: what one edge node reports, however absurd, does not stop the counts of others.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { connect } from '@nats-io/transport-node'
import { startNats } from '../../dev/nats.ts'
import { many } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { defaultChannels, inboxOf, type Report } from '../../src/distribution/channels.ts'
import { readReport } from '../../src/distribution/report.ts'
import { newId } from '../../src/kernel/ids.ts'
import { addSigningKey } from '../../src/publisher/signing_keys.ts'
import { secretsBox, startControlPlane } from '../harness/control_plane.ts'
import { policyWith, restrict } from '../harness/ip.ts'
import { poll } from '../harness/poll.ts'

const nats = await startNats()
after(() => nats.stop())
const plane = await startControlPlane({ after }, { env: nats.controlPlane })
await addSigningKey(plane.db, secretsBox)
const node = await connect({
  servers: nats.url,
  user: 'edge-1',
  pass: 'edge-1',
  inboxPrefix: inboxOf('edge-1'),
})
after(() => node.close())

const now = () => new Date().toISOString()
const report = (fields: object = {}): Report =>
  ({
    node: 'edge-1',
    version: '1',
    startedAt: now(),
    applied: 0,
    records: 0,
    refusals: [],
    hits: [],
    ...fields,
  }) as Report
/** Resolves when the active publisher has taken it in. */
const send = (fields: object) =>
  poll(
    () =>
      node.request(defaultChannels.reports('edge-1'), JSON.stringify(report(fields)), { timeout: 1_000 }).then(
        (answer) => answer.string(),
        (error: Error) => error.message,
      ),
    (answer) => answer === 'kept',
  )

const absurd = {
  lastAt: [
    '+275760-09-13T00:00:00.000Z',
    '9999-12-31T23:59:59Z',
    '0001-01-01T00:00:00Z',
    '-000001-01-01T00:00:00Z',
    'x',
    7,
    null,
  ],
  count: [Number.MAX_SAFE_INTEGER, 1e30, 0, -1, 1.5, '1', null],
  source: ['10.0.0.1/8', '10.1', '', 5, null, 'fe80::1%eth0'],
  outcome: ['allowed', null, {}],
  restriction: [5, {}, []],
  target: [5, {}, null],
}

test('row 14: absurd dates, counts and types in one report do not stop honest counts', async () => {
  const admin = await plane.newAccount()
  const { id } = await restrict(admin, { type: 'endpoints', ip_policy_ids: [await policyWith(admin)] })
  const honest = {
    restriction: id,
    target: 'edgtcp_x',
    source: '192.0.2.1',
    outcome: 'warned',
    count: 3,
    lastAt: now(),
  }
  await send({ hits: [honest] })
  for (const [field, values] of Object.entries(absurd))
    await send({ hits: [...values.map((value) => ({ ...honest, [field]: value })), honest, null, 5, [], 'x'] })
  // Invalid reports. They are not answered, so they cannot be waited for.
  for (const fields of [
    { startedAt: '+275760-09-13T00:00:00.000Z' },
    { startedAt: 'yesterday' },
    { version: 'a\u0000b' },
    { version: null },
    { applied: 1e30 },
    { records: 'many' },
    { refusals: null },
    { node: 'edge-2' },
  ])
    node.publish(defaultChannels.reports('edge-1'), JSON.stringify(report(fields)))
  for (const text of ['', 'null', '[]', '5', '{']) node.publish(defaultChannels.reports('edge-1'), text)
  await send({ hits: [honest], refusals: [null, { key: 'k', generation: 1e30, reason: '', at: 'x' }] })

  const rounds = Object.keys(absurd).length + 2
  const { body } = await poll(
    () => admin('GET', `/ip_restrictions/${id}/warnings`),
    ({ body: { warnings } }) => warnings[0]?.count === 3 * rounds,
  )
  assert.deepEqual(
    body.warnings.map(({ source_ip }: { source_ip: string }) => source_ip),
    ['192.0.2.1'],
  )
  const saved = await poll(
    () => many<{ name: string; version: string }>(plane.db, sql`select name, version from edge_nodes`),
    ({ length }) => length > 0,
  )
  assert.deepEqual(saved, [{ name: 'edge-1', version: '1' }])

  const [{ log, origin } = assert.fail()] = plane.processes
  assert.deepEqual(
    log.filter(({ level }) => level === 'error'),
    [],
  )
  assert.equal(log.filter(({ msg }) => msg.startsWith('an edge node reported out-of-bounds values')).length, 1)
  const metrics = await (await fetch(`${origin}/metrics`)).text()
  assert.ok(Number(/^gatehouse_edge_report_parts_dropped_total (\d+)$/m.exec(metrics)?.[1]) > 40, 'counted')
})

test('row 14: counts slightly in the future count as now, and old counts of a disconnected node are kept', () => {
  const at = Date.parse('2027-01-15T12:00:00Z')
  const hit = { restriction: null, source: '2001:DB8::1', outcome: 'refused', count: 1 }
  const times = ['2027-01-15T12:59:00Z', '2027-01-15T13:01:00Z', '2027-01-01T00:00:00Z', '2026-11-01T00:00:00Z']
  const sent = report({ startedAt: '2026-01-01T00:00:00Z', hits: times.map((lastAt) => ({ ...hit, lastAt })) })
  const read = readReport(JSON.stringify(sent), defaultChannels.reports('edge-1'), at)
  assert.deepEqual(
    read?.report.hits.map(({ lastAt, source }) => [lastAt, source]),
    [
      ['2027-01-15T12:00:00.000Z', '2001:db8::1'],
      ['2027-01-01T00:00:00.000Z', '2001:db8::1'],
    ],
  )
  assert.equal(read?.dropped, 2)
})

test('states of upstreams are taken in only if every part of them could be true', () => {
  const at = Date.parse('2027-01-15T12:00:00Z')
  const honest = {
    backend: newId('bkdst'),
    address: '2001:DB8::1',
    port: 443,
    status: 'failing',
    reason: 'its certificate has expired',
    since: '2027-01-15T12:30:00Z',
    lastFailedAt: '2027-01-15T11:00:00Z',
  }
  const absurdStates = {
    backend: [newId('edgtcp'), 'bkdst_', '', 5, null],
    address: ['10.0.0.1/8', 'localhost', '', 5, null],
    port: [0, 65_536, 1.5, '443', null],
    status: ['fine', '', null, {}],
    reason: ['', 'two\nlines', 'x'.repeat(201), 'caf\u00e9', 5, undefined],
    since: ['yesterday', '2027-01-15T14:00:00Z', '+275760-09-13T00:00:00.000Z', null],
    lastFailedAt: ['x', '2027-01-15T14:00:00Z', null],
  }
  const wrong = Object.entries(absurdStates).flatMap(([field, values]) =>
    values.map((value): unknown => ({ ...honest, [field]: value })),
  )
  const sent = report({ startedAt: '2026-01-01T00:00:00Z', health: [...wrong, honest, null, 5, []] })
  const read = readReport(JSON.stringify(sent), defaultChannels.reports('edge-1'), at)
  assert.deepEqual(read?.report.health, [
    { ...honest, address: '2001:db8::1', since: '2027-01-15T12:00:00.000Z', lastFailedAt: '2027-01-15T11:00:00.000Z' },
  ])
  assert.equal(read?.dropped, wrong.length + 3)
  const many = readReport(
    JSON.stringify({ ...sent, health: Array(5_000).fill(honest) }),
    defaultChannels.reports('edge-1'),
    at,
  )
  assert.equal(many?.report.health?.length, 1_000)
  const none = readReport(JSON.stringify({ ...sent, health: undefined }), defaultChannels.reports('edge-1'), at)
  assert.deepEqual([none?.report.health, none?.dropped], [[], 0], 'agents before 0.2 do not send it')
})
