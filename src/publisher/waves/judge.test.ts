import assert from 'node:assert/strict'
import { test } from 'node:test'
import { judge, type WatchedNode, type WatchedRollout } from './judge.ts'

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
  ...more,
})
const node = (more: Partial<WatchedNode> = {}): WatchedNode => ({
  name: 'canary',
  isLive: true,
  lastSeenAt: 2_000,
  applied: 12,
  refusals: [],
  ...more,
})
const verdict = (its: Partial<WatchedRollout>, nodes: WatchedNode[], now = 5_000) =>
  judge(rollout(its), nodes, { now, soakMs }).verdict
const refusal = { key: 'route.a', generation: 11, reason: 'has no backend' }

test('the watch begins when every live node of the wave has applied the changes, and not before', () => {
  assert.equal(verdict({}, [node(), node({ name: 'b', applied: 11 })]), 'wait')
  assert.equal(verdict({}, [node(), node({ name: 'b' })]), 'applied')
})

test('nodes of a later wave have to apply the release, which is later than the changes', () => {
  assert.equal(verdict({ reached: 1, appliedAs: 14 }, [node({ applied: 13 })]), 'wait')
  assert.equal(verdict({ reached: 1, appliedAs: 14 }, [node({ applied: 14 })]), 'applied')
})

test('the next wave gets the changes at the end of the watch, and not before', () => {
  assert.equal(verdict({ appliedAt: 5_000 }, [node()], 34_999), 'wait')
  assert.equal(verdict({ appliedAt: 5_000 }, [node()], 35_000), 'release')
})

test('a node that refused one of the records stops the rollout, whenever it says so, and is named', () => {
  const found = judge(rollout({ appliedAt: 5_000 }), [node(), node({ name: 'b', refusals: [refusal] })], {
    now: 40_000,
    soakMs,
  })
  assert.deepEqual(found, {
    verdict: 'halt',
    reason: 'b refused route.a: has no backend',
    evidence: [{ node: 'b', key: 'route.a', reason: 'has no backend' }],
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
  assert.equal(verdict({ reached: 1, appliedAt: 0 }, [node({ isLive: false, lastSeenAt: 0 })], 60_000), 'wait')
})

test('the operator need not wait, but for the bucket', () => {
  const silent = node({ isLive: false, refusals: [refusal] })
  assert.equal(verdict({ isUrgent: true }, [silent]), 'release')
  assert.equal(verdict({ isUrgent: true, sentUpTo: 11 }, [silent]), 'wait')
})
