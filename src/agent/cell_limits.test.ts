import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { EdgeRecord, RecordKey } from '../distribution/records.ts'
import { createCellLimits } from './cell_limits.ts'

test('limits of the cell are shut from the moment that they are known without a number of nodes', () => {
  const known = new Map<RecordKey, EdgeRecord>()
  const limits = createCellLimits(known)
  const after = (key: RecordKey, value: object | null): number => {
    known.set(key, { key, generation: known.size + 1, value: value as EdgeRecord['value'] })
    limits.note(key)
    return limits.shut()
  }
  const ofCell = (account: string) => ({ account, rate_limit: { scope: 'cell' } })
  const ofNode = (account: string) => ({ account, rate_limit: {} })
  assert.equal(after('route.a1', ofNode('ac_a')), 0)
  assert.equal(after('route.a1', ofCell('ac_a')), 1)
  assert.equal(after('tcp.a2', ofCell('ac_a')), 2)
  assert.equal(after('route.b1', ofCell('ac_b')), 3)
  assert.equal(after('cell_nodes.ac_a', { nodes: 3 }), 1, 'the number of one account says nothing about another')
  assert.equal(after('cell_nodes.ac_c', { nodes: 3 }), 1)
  assert.equal(after('route.b1', ofCell('ac_a')), 0, 'now of an account whose number is known')
  assert.equal(after('cell_nodes.ac_a', null), 3)
  assert.equal(after('route.a1', null), 2)
  assert.equal(after('tcp.a2', ofNode('ac_a')), 1)
  assert.equal(after('cell_nodes.ac_a', { nodes: 1 }), 0)
  assert.equal(after('route.c1', ofCell('ac_c')), 0, 'the number may come first')
})
