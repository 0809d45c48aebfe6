import assert from 'node:assert/strict'
import { test } from 'node:test'
import { newId } from '../../kernel/ids.ts'
import { createHealth, type Observation } from './health.ts'

const start = Date.parse('2027-01-15T12:00:00Z')
const minute = 60_000
const seen = (fields: Partial<Observation> = {}): Observation => ({
  backend: 'bkdst_1',
  address: '192.0.2.1',
  port: 8080,
  status: 'failing',
  reason: 'refused the connection',
  at: start,
  ...fields,
})
const statuses = (health: ReturnType<typeof createHealth>, now: number) =>
  health.take(now).map(({ backend, status }) => `${backend} ${status}`)

test('a change is reported once at the next opportunity, and repeated every minute', () => {
  const health = createHealth()
  health.observe(seen())
  assert.deepEqual(health.take(start), [
    {
      backend: 'bkdst_1',
      address: '192.0.2.1',
      port: 8080,
      status: 'failing',
      reason: 'refused the connection',
      since: '2027-01-15T12:00:00.000Z',
      lastFailedAt: '2027-01-15T12:00:00.000Z',
    },
  ])
  assert.deepEqual(statuses(health, start + 2_000), [])
  health.observe(seen({ at: start + 4_000 }))
  assert.deepEqual(statuses(health, start + 4_000), [], 'the same again is no change')
  const [repeated] = health.take(start + minute)
  assert.deepEqual([repeated?.since, repeated?.lastFailedAt], ['2027-01-15T12:00:00.000Z', '2027-01-15T12:00:04.000Z'])
})

test('the time of a state is when it began; another reason does not change it', () => {
  const health = createHealth()
  health.observe(seen({ status: 'down' }))
  health.observe(seen({ status: 'down', reason: 'answered 503', at: start + minute }))
  const [down] = health.take(start + minute)
  assert.deepEqual(
    [down?.since, down?.reason, down?.lastFailedAt],
    ['2027-01-15T12:00:00.000Z', 'answered 503', undefined],
  )
  health.observe(seen({ status: 'up', reason: null, at: start + 2 * minute }))
  const [up] = health.take(start + 2 * minute)
  assert.deepEqual([up?.status, up?.since], ['up', '2027-01-15T12:02:00.000Z'])
})

test('a failure ends after five minutes without another; what a check says does not', () => {
  const health = createHealth()
  health.observe(seen())
  health.observe(seen({ backend: 'bkdst_2', status: 'down' }))
  health.observe(seen({ at: start + minute }))
  health.take(start + 5 * minute)
  assert.deepEqual(health.counts(), { up: 0, down: 1, failing: 1 })
  assert.deepEqual(statuses(health, start + 6 * minute), ['bkdst_1 cleared', 'bkdst_2 down'])
  assert.deepEqual(health.counts(), { up: 0, down: 1, failing: 0 })
  assert.deepEqual(
    statuses(health, start + 7 * minute),
    ['bkdst_1 cleared', 'bkdst_2 down'],
    'repeated: it may be lost',
  )
  assert.deepEqual(statuses(health, start + 9 * minute), ['bkdst_2 down'])
})

test('what was seen of a backend that changed no longer counts, until it is seen again', () => {
  const health = createHealth()
  health.observe(seen({ status: 'down' }))
  health.observe(seen({ status: 'down', address: '2001:db8::1' }))
  health.observe(seen({ backend: 'bkdst_2' }))
  health.take(start)
  health.forget('bkdst_1', start + 1_000)
  assert.deepEqual(statuses(health, start + 2_000), ['bkdst_1 cleared', 'bkdst_1 cleared'])
  health.observe(seen({ status: 'up', reason: null, at: start + 3_000 }))
  assert.deepEqual(statuses(health, start + 4_000), ['bkdst_1 up'])
  assert.deepEqual(health.counts(), { up: 1, down: 0, failing: 1 })
})

test('a report that did not arrive is sent again, with what is true by then', () => {
  const health = createHealth()
  health.observe(seen())
  const lost = health.take(start)
  health.observe(seen({ reason: 'no response in time', at: start + 1_000 }))
  health.giveBack(lost)
  assert.deepEqual(
    health.take(start + 2_000).map(({ reason }) => reason),
    ['no response in time'],
  )
})

test("an account with thousands of dead backends does not delay or push out another's", () => {
  const health = createHealth({ limit: 1_000 })
  for (let n = 0; n < 700; n++) health.observe(seen({ backend: newId('bkdst'), account: 'hostile' }))
  health.observe(seen({ backend: 'bkdst_ours', account: 'ours' }))
  assert.ok(statuses(health, start).includes('bkdst_ours failing'), 'among the first')
  for (let n = 0; n < 5_000; n++) health.observe(seen({ backend: newId('bkdst'), account: 'hostile', at: start + 1 }))
  assert.equal(health.counts().failing, 1_000)
  const all = new Set<string>()
  for (let second = 0; second < 200; second += 2)
    for (const each of statuses(health, start + minute + second * 1_000)) all.add(each)
  assert.ok(all.has('bkdst_ours failing'))
  assert.equal(all.size, 1_000)
})

test('everything is repeated within minutes, in reports of bounded size', () => {
  const health = createHealth()
  const backends = Array.from({ length: 20_000 }, () => newId('bkdst'))
  for (const backend of backends) health.observe(seen({ backend, status: 'up', reason: null }))
  let now = start
  for (; health.take(now).length > 200; now += 2_000);
  const repeated = new Set<string>()
  for (const end = now + 7 * minute; now < end; now += 2_000) {
    const sent = health.take(now)
    assert.ok(sent.length <= 500)
    for (const { backend } of sent) repeated.add(backend)
  }
  assert.equal(repeated.size, backends.length)
})

test('a reason has printable characters only, and not too many', () => {
  const health = createHealth()
  health.observe(seen({ reason: `a\n\u0000b${'x'.repeat(500)}` }))
  assert.equal(health.take(start)[0]?.reason, `a b${'x'.repeat(197)}`)
})
