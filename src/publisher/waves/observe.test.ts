import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { RecordKey } from '../../distribution/records.ts'
import { judgedFigures, trafficFigures } from '../../kernel/edge/traffic.ts'
import { newId, newUuid, toId } from '../../kernel/ids.ts'
import type { Recent } from '../nodes/recent_traffic.ts'
import { answersOf } from './observe.ts'

const [accountId, began] = [newUuid(), 1_000_000]
const account = toId('ac', accountId)
const [wide, narrow, page, other] = [newId('edghts'), newId('edghts'), newId('edghtsrt'), newId('edghtsrt')]
const figures = [...trafficFigures, ...judgedFigures]

const of = (place: Partial<Recent>, counted: Partial<Record<(typeof figures)[number], number>>): Recent => ({
  ...{ node: 'canary', edge: wide, route: page, at: began - 1_000, ...place },
  counts: figures.map((figure) => counted[figure] ?? 0),
})
const since = { at: began + 1_000 }
const seenOf = (keys: RecordKey[], recent: Recent[], lastedMs = 30_000) =>
  new Map(
    answersOf(recent, { keys, account_id: accountId }, ['canary'], [began, began + lastedMs]).map((each) => [
      each.target,
      each,
    ]),
  )

test('a new name of an edge that takes requests of another shows in all HTTPS edges of the account together', () => {
  const seen = seenOf(
    [`https.${narrow}`, `route.${other}`],
    [
      of({}, { requests: 100 }),
      of({ ...since, edge: narrow, route: other }, { requests: 20, backend_5xx: 20 }),
      of({ ...since, node: 'later' }, { requests: 40 }),
      of({ edge: newId('edgtcp'), route: null }, { requests: 500 }),
    ],
  )
  const { before, since: here, elsewhere } = seen.get(account) ?? assert.fail()
  assert.deepEqual([before.requests, here.requests, here.failed, elsewhere.requests], [100, 20, 20, 40])
  assert.equal(seen.get(narrow)?.before.requests, 0, 'which the new edge itself cannot show')
  for (const key of [`mutual_tls.${narrow}`, `route.${other}`] as const)
    assert.ok(seenOf([key], [of({}, { requests: 1 })]).has(account), key)
  assert.ok(!seenOf([`policy.${newId('ipp')}`], [of({}, { requests: 1 })]).has(account))
})

test('requests that a change leaves without a route count as rejected for the account', () => {
  const seen = seenOf(
    [`route.${page}`],
    [of({}, { requests: 60 }), of({ ...since, edge: null, route: null }, { requests: 30, client: 30 })],
  )
  const { since: here, succeeded, expected } = seen.get(account) ?? assert.fail()
  assert.deepEqual([here.rejected, here.failed, succeeded, expected], [30, 0, 0, 30])
})

test('what ended in the second half of the time since is known apart: the rest may have begun before the changes', () => {
  const seen = seenOf(
    [`route.${page}`],
    [of({}, { requests: 60 }), of(since, { requests: 8 }), of({ at: began + 15_000 }, { requests: 2, timeout: 2 })],
  )
  assert.deepEqual([seen.get(page)?.since.requests, seen.get(page)?.lately], [10, 2])
})

test('what succeeds is compared with the minute before; who gave up waiting has failed, and who left at once has not', () => {
  const seen = seenOf(
    [`route.${page}`],
    [
      of({ at: began - 90_000 }, { requests: 1_000 }),
      of({}, { requests: 70, refused: 4, limited: 3, timeout: 2, rejected: 1 }),
      of(since, { requests: 9, client: 6, abandoned: 4, rejected: 1 }),
    ],
    15_000,
  )
  const { since: here, succeeded, expected } = seen.get(page) ?? assert.fail()
  assert.deepEqual([here.failed, succeeded, expected], [4, 2, 15])
})
