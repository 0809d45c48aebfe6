import assert from 'node:assert/strict'
import { test } from 'node:test'
import { judge } from './judge.ts'
import type { Observed, Thresholds, WatchedNode, WatchedRollout } from './signals.ts'

const soakMs = 30_000
const rollout = (more: Partial<WatchedRollout> = {}): WatchedRollout => ({
  reached: 0,
  since: 10,
  openUntil: 12,
  appliedAs: 12,
  keys: new Set(['route.a', 'policy.b']),
  beganAt: 1_000,
  appliedAt: null,
  sentUpTo: 12,
  isUrgent: false,
  isForced: false,
  ...more,
})
const node = (more: Partial<WatchedNode> = {}): WatchedNode => ({
  name: 'canary',
  isLive: true,
  lastSeenAt: 2_000,
  wave: 0,
  applied: 12,
  refusals: [],
  differing: [],
  differs: false,
  ...more,
})
const thresholds = { soakMs, haltAddresses: 50, haltAddressesPercent: 20, haltErrorsPercent: 20 }
const nothing: Observed = { refused: [], answers: [] }
const none = { failed: 0, requests: 0 }
const seen = {
  node: 'canary',
  target: 'route',
  ...{ before: none, since: none, elsewhere: none, succeeded: 0, expected: 0, lately: 0 },
}
const found = (its: Partial<WatchedRollout>, nodes: WatchedNode[], now = 5_000, observed = nothing) =>
  judge(rollout(its), nodes, observed, { now, ...thresholds })
const verdict = (...given: Parameters<typeof found>) => found(...given).verdict
const refusal = { key: 'route.a', generation: 11, reason: 'has no backend' }

test('the watch begins when every live node of the wave has applied the changes, and not before', () => {
  assert.equal(verdict({}, [node(), node({ name: 'b', applied: 11 })]), 'wait')
  assert.equal(verdict({}, [node(), node({ name: 'b' })]), 'applied')
})

test('nodes of a later wave have to apply the release, which is later than the changes', () => {
  assert.equal(verdict({ reached: 1, appliedAs: 14 }, [node({ wave: 1, applied: 13 })]), 'wait')
  assert.equal(verdict({ reached: 1, appliedAs: 14 }, [node({ wave: 1, applied: 14 })]), 'applied')
})

test('the next wave gets the changes at the end of the watch, and not before', () => {
  assert.equal(verdict({ appliedAt: 5_000 }, [node()], 34_999), 'wait')
  assert.equal(verdict({ appliedAt: 5_000 }, [node()], 35_000), 'release')
})

test('a node that refused one of the records stops the rollout, whenever it says so, and is named', () => {
  const reason = 'b refused route.a: has no backend'
  assert.deepEqual(found({ appliedAt: 5_000 }, [node(), node({ name: 'b', refusals: [refusal] })], 40_000), {
    ...{ verdict: 'halt', reason },
    evidence: [{ signal: 'record', node: 'b', key: 'route.a', reason }],
  })
  assert.equal(verdict({ sentUpTo: 11 }, [node({ applied: 9, refusals: [refusal] })]), 'halt')
})

test('what was refused before the rollout, or is of another account, says nothing of it', () => {
  const refusals = [
    { ...refusal, generation: 9 },
    { ...refusal, generation: null },
    { ...refusal, key: 'route.other' },
  ]
  assert.equal(verdict({ appliedAt: 0 }, [node({ refusals })], 60_000), 'release')
})

test('what is unknown releases nothing', () => {
  const later = { appliedAt: 0 }
  assert.equal(verdict(later, [], 60_000), 'wait', 'no node')
  assert.equal(verdict(later, [node({ isLive: false, lastSeenAt: 500 })], 60_000), 'wait', 'no live node')
  const [dead, gone] = [node({ name: 'b', isLive: false, lastSeenAt: 1_000 }), node({ isLive: false, lastSeenAt: 999 })]
  assert.equal(verdict(later, [node(), dead], 60_000), 'wait', 'one that fell silent since')
  assert.equal(verdict(later, [node(), gone], 60_000), 'release', 'one that was away before')
  assert.equal(verdict({ ...later, sentUpTo: 11 }, [node()], 60_000), 'wait', 'not in the bucket')
})

test('a later wave without any node holds nothing up, and one whose nodes are silent does', () => {
  assert.equal(verdict({ reached: 1, appliedAt: 0 }, [], 60_000), 'release')
  assert.equal(verdict({ reached: 1, appliedAt: 0 }, [node({ wave: 1, isLive: false, lastSeenAt: 0 })], 60_000), 'wait')
})

test('the operator need not wait, but for the bucket', () => {
  const silent = node({ isLive: false, refusals: [refusal] })
  assert.equal(verdict({ isUrgent: true, isForced: true }, [silent]), 'release')
  assert.equal(verdict({ isUrgent: true, isForced: true, sentUpTo: 11 }, [silent]), 'wait')
})

test('what is urgent waits for the nodes of the first wave and not for clients, and is halted for what hurts others', () => {
  const its = { isUrgent: true }
  const worse = { before: { failed: 0, requests: 99 }, since: { failed: 99, requests: 99 } }
  const failing = {
    ...nothing,
    answers: [{ ...seen, ...worse }],
  }
  assert.equal(verdict(its, [node({ applied: 11 })]), 'wait')
  assert.equal(verdict(its, [node()]), 'applied')
  assert.equal(verdict({ ...its, appliedAt: 5_000 }, [node()], 6_999, failing), 'wait')
  assert.equal(verdict({ ...its, appliedAt: 5_000 }, [node({ heardSince: 6_900 })], 7_000, failing), 'release')
  assert.equal(verdict(its, [node({ refusals: [refusal] })]), 'halt')
  assert.equal(verdict({ ...its, appliedAt: 5_000 }, [node({ proxyLostAt: 5_500 })], 7_000), 'halt')
})

const halted = (observed: Partial<Observed>, nodes = [node()], its: Partial<Thresholds> = {}) =>
  judge(rollout({ appliedAt: 2_000 }), nodes, { ...nothing, ...observed }, { now: 5_000, ...thresholds, ...its })

test('HAProxy that ended on a node that has the changes stops them, and one that ended before does not', () => {
  const { verdict: is, ...why } = halted({}, [node({ proxyLostAt: 1_000 })])
  assert.equal(is, 'halt')
  assert.match(JSON.stringify(why), /HAProxy ended on canary/)
  assert.equal(halted({}, [node({ proxyLostAt: 999 })]).verdict, 'wait')
  assert.equal(verdict({ reached: 1 }, [node({ proxyLostAt: 1_000 }), node({ name: 'b', wave: 1 })]), 'halt')
})

test('an entry of the changes that HAProxy did not have stops them; any other is waited for', () => {
  const [own, other] = [
    { what: 'route', name: 'a' },
    { what: 'route', name: 'c' },
  ]
  assert.equal(halted({}, [node({ differedAt: 1_000, differing: [own], differs: true })]).verdict, 'halt')
  assert.equal(halted({}, [node({ differedAt: 999, differing: [own] })]).verdict, 'wait')
  const differing = node({ differedAt: 1_000, differing: [other], differs: true })
  assert.equal(verdict({ appliedAt: 0 }, [differing], 60_000), 'wait')
  assert.equal(verdict({ appliedAt: 0 }, [{ ...differing, differs: false }], 60_000), 'release')
})

test('addresses that were let in lately and are refused stop a rollout above a number or a share, and few never do', () => {
  const refused = (count: number, letIn: number) => ({
    refused: [
      { node: 'canary', target: 'edge', addresses: Array.from({ length: count }, (_, n) => `192.0.2.${n}`), letIn },
    ],
  })
  for (const [count, letIn] of [
    [1, 1],
    [2, 2],
    [3, 16],
    [49, 246],
  ] as const)
    assert.equal(halted(refused(count, letIn)).verdict, 'wait', `${count} of ${letIn}`)
  for (const [count, letIn] of [
    [3, 15],
    [50, 10_000],
    [10, 10],
  ] as const)
    assert.equal(halted(refused(count, letIn)).verdict, 'halt', `${count} of ${letIn}`)
})

test('a signal that is off halts nothing, and the others still do', () => {
  const refused = { node: 'canary', target: 'edge', letIn: 60, addresses: Array.from({ length: 55 }, (_, n) => `${n}`) }
  const counts = { before: { failed: 0, requests: 99 }, since: { failed: 99, requests: 99 } }
  const answers = { ...seen, ...counts }
  const verdicts = (its: Partial<Thresholds>) =>
    [{ refused: [refused] }, { answers: [answers] }].map((observed) => halted(observed, [node()], its).verdict)
  assert.deepEqual(verdicts({ haltAddresses: null }), ['halt', 'halt'])
  assert.deepEqual(verdicts({ haltAddressesPercent: null }), ['halt', 'halt'])
  assert.deepEqual(verdicts({ haltAddresses: null, haltAddressesPercent: null }), ['wait', 'halt'])
  assert.deepEqual(verdicts({ haltErrorsPercent: null }), ['halt', 'wait'])
})

test('failed requests stop a rollout when they rise against before and against nodes that do not have it', () => {
  const answers = (before: number[], since: number[], elsewhere: number[] = []) => {
    const of = ([failed = 0, requests = 0]: number[]) => ({ failed, requests })
    return {
      answers: [{ ...seen, before: of(before), since: of(since), elsewhere: of(elsewhere) }],
    }
  }
  const isHalted = (...given: Parameters<typeof answers>) => halted(answers(...given)).verdict === 'halt'
  assert.ok(isHalted([0, 100], [20, 100]))
  assert.ok(isHalted([0, 5], [5, 5], [0, 100]))
  assert.ok(!isHalted([0, 100], [1, 1]), 'one request of one')
  assert.ok(!isHalted([0, 100], [4, 4]), 'too few failed')
  assert.ok(!isHalted([0, 100], [19, 100]), 'too small a share')
  assert.ok(!isHalted([90, 100], [100, 100]), 'it failed before')
  assert.ok(!isHalted([0, 0], [100, 100]), 'it may never have worked')
  assert.ok(!isHalted([0, 100], [100, 100], [95, 100]), 'its backend fails everywhere')
  assert.ok(isHalted([0, 100], [100, 100], [4, 4]), 'too few elsewhere to compare with')
})

test('requests answered with 4xx stop a rollout when fewer succeed as well, so that a scan halts nothing', () => {
  const of = (rejected: number, requests: number) => ({ failed: 0, rejected, requests })
  const answers = { ...seen, before: of(1, 100), since: of(20, 20), succeeded: 0, expected: 20 }
  const isHalted = (more: Partial<typeof answers>) => halted({ answers: [{ ...answers, ...more }] }).verdict === 'halt'
  assert.ok(isHalted({}))
  assert.ok(isHalted({ since: of(11, 20), succeeded: 9 }), 'half of them')
  assert.ok(!isHalted({ since: of(500, 520), succeeded: 20 }), 'a scan')
  assert.ok(!isHalted({ since: of(500, 504), succeeded: 4, expected: 9 }), 'a scan where there is hardly any traffic')
  assert.ok(!isHalted({ elsewhere: of(10, 10) }), 'its application rejects them everywhere')
  assert.ok(!isHalted({ before: of(90, 100) }), 'it rejected them before')
  assert.ok(!isHalted({ since: of(4, 4) }), 'too few')
})

test('while hardly any request ends any more, what has them goes no further, for as long as a backend may take', () => {
  const silent = { ...nothing, answers: [{ ...seen, lately: 1, expected: 21 }] }
  const at = (now: number, observed: Observed) => verdict({ appliedAt: 0 }, [node()], now, observed)
  assert.deepEqual(
    [soakMs, soakMs + 89_999, soakMs + 90_000].map((now) => at(now, silent)),
    ['wait', 'wait', 'release'],
  )
  const some = { ...nothing, answers: [{ ...seen, lately: 2, expected: 21 }] }
  assert.equal(at(soakMs, some), 'release')
  const few = { ...nothing, answers: [{ ...seen, expected: 9 }] }
  assert.equal(at(soakMs, few), 'release')
  assert.equal(verdict({ appliedAt: 5_000, isUrgent: true }, [node()], 7_000, silent), 'release')
})

test('who watches must have heard what a node answers for the whole time', () => {
  const [deaf, hearing] = [node({ heardSince: 10_000 }), node({ heardSince: 1_000 })]
  assert.equal(verdict({ appliedAt: 2_000 }, [deaf], 32_000), 'wait')
  assert.equal(verdict({ appliedAt: 2_000 }, [deaf], 40_000), 'release')
  assert.equal(verdict({ appliedAt: 2_000 }, [hearing], 32_000), 'release')
})
