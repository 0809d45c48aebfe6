import assert from 'node:assert/strict'
import { test } from 'node:test'
import { newId } from '../../kernel/ids.ts'
import type { Event } from './undo_steps.ts'
import { titleOfUndoOf } from './undo_title.ts'

const bytesOf = (title: string): number => Buffer.byteLength(`${title}: not confirmed by ${new Date(0).toISOString()}`)

test('the longest title fits into a description in any alphabet, with why the service undid it', () => {
  for (const name of ['漢'.repeat(300), '😀'.repeat(300), 'é'.repeat(300)]) {
    const event = {
      operation: 'https_edge_routes.response_compression_and_more.delete',
      resource_id: newId('edghtsrt'),
      before: { description: name },
      after: null,
    } as unknown as Event
    assert.ok(bytesOf(titleOfUndoOf(null, Array(1_000).fill(event))) <= 255)
    assert.ok(bytesOf(titleOfUndoOf(name, [event])) <= 255)
  }
})
