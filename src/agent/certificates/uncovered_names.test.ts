// What a node reports of names without a certificate: bounded, and no account hides another.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defaultChannels } from '../../distribution/channels.ts'
import type { EdgeRecord, RecordKey } from '../../distribution/records.ts'
import { readReport } from '../../distribution/report.ts'
import { type Id, newId } from '../../kernel/ids.ts'
import { createUncoveredNames } from './uncovered_names.ts'

type Edge = { account: Id<'ac'> | undefined; names: readonly string[] }

function uncoveredOf(edges: readonly Edge[], covered: readonly string[] = []) {
  const known = new Map<RecordKey, EdgeRecord>()
  const put = (key: RecordKey, value: object) => known.set(key, { key, generation: 1, value } as EdgeRecord)
  for (const { account, names } of edges) {
    const edge = newId('edghts')
    put(`https.${edge}`, { hostports: names.map((name) => `${name}:443`) })
    if (account) put(`route.${newId('edghtsrt')}`, { account, edge })
  }
  const taken = new Map(covered.map((name) => [name, 'file']))
  const uncovered = createUncoveredNames(known, { taken: () => taken, served: () => new Map() }, () => 10_000)
  for (const key of known.keys()) uncovered.note(key)
  return uncovered.state()
}
const [alice, bob] = [newId('ac'), newId('ac')]
const manyNames = Array.from({ length: 5_000 }, (_, index) => `n${index}.flood.example`)

test('names are reported by the account whose routes they lead to', () => {
  const found = uncoveredOf(
    [
      { account: alice, names: ['a.example', 'fine.example'] },
      { account: bob, names: ['b.example'] },
      { account: undefined, names: ['without-routes.example'] },
    ],
    ['fine.example'],
  )
  assert.equal(found.missing, 3)
  assert.deepEqual(found.uncovered, {
    accounts: [
      { account: alice, count: 1, names: ['a.example'] },
      { account: bob, count: 1, names: ['b.example'] },
    ],
    isCut: false,
  })
})

test('an account with thousands of such names hides none of another, and the report stays small', () => {
  const { uncovered, missing } = uncoveredOf([
    { account: bob, names: manyNames },
    { account: alice, names: ['a.example'] },
  ])
  assert.equal(missing, 5_001)
  const [flood, own] = uncovered.accounts
  assert.deepEqual(own, { account: alice, count: 1, names: ['a.example'] })
  assert.ok(flood && flood.count === 5_000 && flood.names.length > 100 && flood.names.length < 5_000)
  assert.ok(JSON.stringify(uncovered).length <= 16 * 1024 + 100)
  assert.equal(uncovered.isCut, false)
})

test('accounts that do not fit are said to be missing, and what arrives is checked', () => {
  const accounts = Array.from({ length: 600 }, () => newId('ac'))
  const { uncovered } = uncoveredOf(accounts.map((account, index) => ({ account, names: [`n${index}.example`] })))
  assert.ok(uncovered.isCut && uncovered.accounts.length < 600)
  const read = (sent: unknown) => {
    const certificates = { names: 0, waiting: 0, firstExpiry: null, missing: 600, uncovered: sent }
    const report = { node: 'a', version: '1', applied: 0, records: 0, refusals: [], hits: [], certificates }
    const text = JSON.stringify({ ...report, startedAt: '2026-01-15T12:00:00.000Z' })
    return readReport(text, defaultChannels.reports('a'), Date.now())?.report.certificates?.uncovered
  }
  assert.deepEqual(read(uncovered), uncovered)
  const [first] = uncovered.accounts
  for (const wrong of [
    [],
    { accounts: {} },
    { accounts: [first, first] },
    { accounts: [{ ...first, count: 0, names: ['a.example'] }] },
    { accounts: [{ ...first, names: ['a\u0000'] }] },
    { accounts: [{ ...first, account: 'ac_1' }] },
  ])
    assert.equal(read(wrong), undefined, JSON.stringify(wrong))
})
