import assert from 'node:assert/strict'
import { test } from 'node:test'
import { random, randomBelow } from '../harness/random.ts'
import { isLinearizable, type Operation } from './linearizable.ts'

const write = (value: string, began: number, ended = Number.POSITIVE_INFINITY): Operation => ({
  kind: 'write',
  value,
  began,
  ended,
})
const read = (value: string | null, began: number, ended: number): Operation => ({ kind: 'read', value, began, ended })

const sound: Record<string, Operation[]> = {
  'nothing happened': [],
  'a read of what was written before': [write('a', 0, 1), read('a', 2, 3)],
  'a read during a write sees either value': [write('a', 0, 9), read(null, 1, 2), read('a', 3, 4)],
  'two writes at once, in the other order than they began': [
    write('a', 0, 9),
    write('b', 1, 2),
    read('b', 3, 4),
    read('a', 5, 6),
  ],
  'a write without an answer that happened, much later': [
    write('a', 0),
    write('b', 1, 2),
    read('b', 3, 4),
    read('a', 5, 6),
  ],
  'a write without an answer that never happened': [write('a', 0), read(null, 1, 2), read(null, 3, 4)],
}
const broken: Record<string, Operation[]> = {
  'an acknowledged write is lost': [write('a', 0, 1), read(null, 2, 3)],
  'a read of what was overwritten before it began': [write('a', 0, 1), write('b', 2, 3), read('a', 4, 5)],
  'a value goes away again': [write('a', 0, 9), read('a', 1, 2), read(null, 3, 4)],
  'a write without an answer is seen, and gone again': [write('a', 0), read('a', 1, 2), read(null, 3, 4)],
  'a read sees what is written only later': [read('a', 0, 1), write('a', 2, 3)],
  'a value that was never written': [write('a', 0, 1), read('b', 2, 3)],
  'two readers see two writes in different orders': [
    write('a', 0, 20),
    write('b', 0, 20),
    read('a', 1, 2),
    read('b', 3, 4),
    read('a', 5, 6),
  ],
}

for (const [name, history] of Object.entries(sound))
  test(`linearizable: ${name}`, () => assert.equal(isLinearizable(null, history), true))
for (const [name, history] of Object.entries(broken))
  test(`not linearizable: ${name}`, () => assert.equal(isLinearizable(null, history), false))

/** Clients on a real register: each operation takes effect at a moment between its beginning and its end. */
function simulate(clients: number, each: number): Operation[] {
  const operations: (Operation & { at: number })[] = []
  for (let client = 0; client < clients; client++) {
    let time = random()
    for (let count = 0; count < each; count++) {
      const began = time
      const at = began + random() * 3
      const ended = at + random() * 3
      const isWrite = random() < 0.4
      // In a few of them the client never learns what happened, and the change happens all the same.
      const isUnknown = isWrite && random() < 0.1
      const value = isWrite ? `${client}-${count}` : null
      operations.push({
        kind: isWrite ? 'write' : 'read',
        value,
        began,
        at,
        ended: isUnknown ? Number.POSITIVE_INFINITY : ended,
      })
      time = ended + random()
    }
  }
  let value: string | null = null
  for (const operation of operations.toSorted((a, b) => a.at - b.at)) {
    if (operation.kind === 'write') value = operation.value
    else operation.value = value
  }
  return operations
}

test('histories of a real register pass, and those with one stale read do not', () => {
  let found = 0
  for (let round = 0; round < 50; round++) {
    const history = simulate(8, 25)
    assert.equal(isLinearizable(null, history), true)
    const reads = history.filter(({ kind }) => kind === 'read')
    const victim = reads[randomBelow(reads.length)] as Operation
    // What cannot be read any more: another write began after it had ended, and ended before this read began.
    const writes = history.filter(({ kind, ended }) => kind === 'write' && ended < victim.began)
    const before = writes.filter(({ ended }) => writes.some((other) => other.began > ended))
    const stale = before[randomBelow(before.length)]
    if (!stale) continue
    victim.value = stale.value
    found++
    assert.equal(isLinearizable(null, history), false)
  }
  assert.ok(found > 20)
})
