import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Report } from '../../distribution/channels.ts'
import { newId } from '../../kernel/ids.ts'
import type { ReportListener } from './nodes.ts'
import { watchSuspicions } from './suspicions.ts'

test('an unsigned entry that a node reports again and again is a suspicion once; signed records and other keys are none', () => {
  const listeners: ReportListener[] = []
  const suspicions = watchSuspicions({ onReport: (listener) => listeners.push(listener) }, 'default')
  const key = `tcp.${newId('edgtcp')}`
  const refusal = { key, generation: null, reason: 'is not signed', at: '2026-01-01T00:00:00Z' }
  const common = { node: 'edge-1', version: '1', startedAt: '', applied: 0, records: 0, hits: [] }
  const reportIn = (cell: string, ...refusals: Report['refusals']) => {
    for (const listener of listeners) listener({ ...common, refusals }, cell, () => {})
  }
  const report = (...refusals: Report['refusals']) => reportIn('default', ...refusals)
  reportIn('eu', refusal)
  assert.deepEqual(suspicions.take(), [], 'another cell has a bucket of its own')
  report(refusal, { ...refusal, key: 'proxy' }, { ...refusal, generation: 7, key: `tcp.${newId('edgtcp')}` })
  assert.deepEqual(suspicions.take(), [key])
  report(refusal)
  assert.deepEqual(suspicions.take(), [])
  report(refusal, { ...refusal, at: '2026-01-01T00:00:01Z' })
  assert.deepEqual(suspicions.take(), [key])
})
