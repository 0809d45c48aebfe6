import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { poll } from '../../../test/harness/poll.ts'
import { createSplitter, readLines } from './ring_reader.ts'

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

test('a reader that closes reads what has been sent, because HAProxy does not send it again', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-ring-'))
  t.after(() => rm(folder, { recursive: true }))
  const got: string[] = []
  const reader = await readLines(join(folder, 'lines.sock'), 100, (line) => got.push(line) > 0)
  const proxy = connect(join(folder, 'lines.sock')).resume()
  await once(proxy, 'connect')
  proxy.write(framed('first'))
  await poll(() => got.length === 1)
  const rest = Array.from({ length: 1_000 }, (_, index) => `line ${index}`)
  await new Promise((sent) => proxy.write(Buffer.concat(rest.map(framed)), sent))
  await reader.close()
  assert.deepEqual(got, ['first', ...rest])
})
