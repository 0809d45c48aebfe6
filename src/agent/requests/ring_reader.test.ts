import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createSplitter } from './ring_reader.ts'

const framed = (line: string) => Buffer.from(`${line.length} ${line}`, 'latin1')

test('lines are the same however their bytes arrive, even with bytes that look like framing', () => {
  const lines = ['a', '5 x', '12 12 12 ', '\n', 'é\0\x7f', 'x'.repeat(100), ' ', '1 event dropped']
  const bytes = Buffer.concat(lines.map(framed))
  for (let size = 1; size <= bytes.length; size++) {
    const got: string[] = []
    const split = createSplitter(100, (line) => got.push(line))
    for (let from = 0; from < bytes.length; from += size) assert.ok(split(bytes.subarray(from, from + size)))
    assert.deepEqual(got, lines, `in pieces of ${size}`)
  }
})

test('what has no length, or one that is too large, is not read on', () => {
  for (const text of ['x 1', '-1 x', '0 x', '102 x', '1.5 x', '1e1 x', ' x', '9'.repeat(200)]) {
    const got: string[] = []
    const split = createSplitter(100, (line) => got.push(line))
    assert.equal(split(Buffer.from(text)), false, text)
    assert.deepEqual(got, [], text)
  }
})
