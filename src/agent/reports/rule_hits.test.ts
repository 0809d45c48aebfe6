import assert from 'node:assert/strict'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { createRuleHits } from './rule_hits.ts'

const day = Date.UTC(2030, 0, 31)
const sum = (hits: readonly { allowed: number; refused: number; warned: number }[]) =>
  hits.reduce((total, { allowed, refused, warned }) => total + allowed + refused + warned, 0)

test('a batch stays the same until it is confirmed, even while more hits are counted', () => {
  const hits = createRuleHits()
  assert.equal(hits.next(), undefined)
  hits.count('ac_1', 'ipr_1', 'allowed', 3, day + 5)
  hits.count('ac_1', 'ipr_1', 'refused', 2, day + 4)
  hits.count('ac_1', 'ipr_2', 'warned', 1, day + 6)
  const first = hits.next()
  assert.deepEqual(first?.hits, [
    { account: 'ac_1', rule: 'ipr_1', day, allowed: 3, refused: 2, warned: 0, lastAt: day + 5 },
    { account: 'ac_1', rule: 'ipr_2', day, allowed: 0, refused: 0, warned: 1, lastAt: day + 6 },
  ])
  hits.count('ac_1', 'ipr_1', 'allowed', 10, day + 7)
  assert.deepEqual(hits.next(), first)
  hits.confirm((first?.batch ?? 0) - 1)
  assert.deepEqual(hits.next(), first)
  hits.confirm(first?.batch ?? 0)
  const second = hits.next()
  assert.equal(second?.sender, first?.sender)
  assert.ok((second?.batch ?? 0) > (first?.batch ?? 0))
  assert.equal(sum(second?.hits ?? []), 10)
})

test('more than fits into one report goes in several, and nothing is counted twice or lost', () => {
  const hits = createRuleHits()
  for (let rule = 0; rule < 5_000; rule++) hits.count(`ac_${rule % 3}`, `ipr_${rule}`, 'allowed', rule, day)
  const seen = new Map<string, number>()
  let batches = 0
  for (let next = hits.next(); next; next = hits.next()) {
    batches++
    for (const { rule, allowed } of next.hits) seen.set(rule, (seen.get(rule) ?? 0) + allowed)
    hits.confirm(next.batch)
  }
  assert.ok(batches > 1)
  assert.equal(seen.size, 5_000)
  for (const [rule, allowed] of seen) assert.equal(`ipr_${allowed}`, rule)
})

test('an account with many rules does not push out the counts of another', () => {
  const hits = createRuleHits({ most: 1_000 })
  hits.count('ac_small', 'ipr_small', 'refused', 7, day)
  for (let rule = 0; rule < 10_000; rule++) hits.count('ac_large', `ipr_${rule}`, 'allowed', 1, day)
  hits.count('ac_late', 'ipr_late', 'refused', 5, day)
  const sent = []
  for (let next = hits.next(); next; next = hits.next()) {
    sent.push(...next.hits)
    hits.confirm(next.batch)
  }
  assert.equal(sent.length, 1_000)
  assert.equal(sum(sent.filter(({ account }) => account === 'ac_small')), 7)
  assert.equal(sum(sent.filter(({ account }) => account === 'ac_late')), 5)
  assert.equal(hits.lost(), 10_000 - 998)
})

test('the next agent goes on where this one ended, with the same number for what may have arrived', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-hits-'))
  t.after(() => rm(folder, { recursive: true }))
  const file = join(folder, 'rule_hits.json')
  const before = createRuleHits()
  before.count('ac_1', 'ipr_1', 'allowed', 3, day)
  const sending = before.next()
  before.count('ac_1', 'ipr_1', 'allowed', 4, day)
  await before.save(file)
  const after = createRuleHits()
  await after.load(file)
  assert.deepEqual(await readdir(folder), [], 'a third agent must not find it again')
  assert.deepEqual(after.next(), sending)
  after.confirm(sending?.batch ?? 0)
  const rest = after.next()
  assert.equal(rest?.batch, (sending?.batch ?? 0) + 1)
  assert.equal(sum(rest?.hits ?? []), 4)
})

test('a saved batch that is too large for the server now goes in parts, and later ones follow', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-hits-'))
  t.after(() => rm(folder, { recursive: true }))
  const file = join(folder, 'rule_hits.json')
  const before = createRuleHits()
  for (let rule = 0; rule < 100; rule++) before.count('ac_1', `ipr_${rule}`, 'allowed', 1, day)
  const saved = before.next()
  before.count('ac_1', 'ipr_later', 'allowed', 1, day)
  await before.save(file)
  const after = createRuleHits()
  await after.load(file)
  const first = after.next(30)
  assert.deepEqual([first?.batch, first?.sender, first?.hits], [saved?.batch, saved?.sender, saved?.hits.slice(0, 30)])
  assert.deepEqual(after.next(30), first, 'the same until it is confirmed')
  const rules: string[] = []
  for (let next = after.next(30); next; next = after.next(30)) {
    assert.ok(next.hits.length <= 30)
    rules.push(...next.hits.map(({ rule }) => rule))
    after.confirm(next.batch)
  }
  assert.equal(new Set(rules).size, 101)
  assert.equal(rules.length, 101)
})
