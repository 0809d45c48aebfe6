import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { glob } from 'node:fs/promises'
import { test } from 'node:test'
import { lockClasses, lockKeys, lockMarks } from './advisory_locks.ts'

const root = new URL('../..', import.meta.url).pathname
const numbers = (keys: Readonly<Record<string, number>>) => Object.values(keys)

async function textsOf(pattern: string): Promise<[path: string, text: string][]> {
  const paths = await Array.fromAsync(glob(pattern, { cwd: root }))
  return paths.sort().map((path) => [path, readFileSync(`${root}${path}`, 'utf8')])
}

test('no two advisory locks have the same key', () => {
  for (const keys of [lockKeys, lockMarks, lockClasses]) assert.equal(new Set(numbers(keys)).size, numbers(keys).length)
  for (const key of numbers(lockKeys)) {
    assert.ok(Number.isSafeInteger(key) && key > 0)
    // Else it would look like the mark of a transaction to settled_generation(), which would wait for it.
    assert.ok(!numbers(lockMarks).includes(Number(BigInt(key) >> 48n)), `${key} is in the range of the marks`)
  }
  for (const key of numbers(lockClasses)) assert.ok(key > 0 && key < 2 ** 31)
})

test('advisory_locks.ts is the only file of the program that takes advisory locks', async () => {
  const taking = (await textsOf('src/**/*.ts'))
    .filter(([path]) => !path.endsWith('.test.ts'))
    .filter(([, text]) => /pg_(try_)?advisory_/.test(text))
    .map(([path]) => path)
  assert.deepEqual(taking, ['src/db/advisory_locks.ts'])
})

/** The key space and the fixed part of the key, from the arguments of the function. */
function keyIn(argumentText: string): [keys: Readonly<Record<string, number>>, key: number] | undefined {
  const [, mark] = /^\((\d+)::bigint << 48\) \| \w+$/.exec(argumentText) ?? []
  if (mark) return [lockMarks, Number(mark)]
  const [, first] = /^(\d+), [\w.]+$/.exec(argumentText) ?? []
  if (first) return [lockClasses, Number(first)]
  return /^\d+$/.test(argumentText) ? [lockKeys, Number(argumentText)] : undefined
}

test('advisory_locks.ts lists every advisory lock that a migration takes', async () => {
  let found = 0
  for (const [path, text] of await textsOf('migrations/*.sql'))
    for (const [call, argumentText = ''] of text.matchAll(/pg_(?:try_)?advisory_\w*lock\w*\((.*)\)/g)) {
      const [keys, key] = keyIn(argumentText) ?? assert.fail(`${path}: cannot read the key of ${call}`)
      assert.ok(numbers(keys).includes(key), `${path}: ${call} is not in advisory_locks.ts`)
      found++
    }
  assert.ok(found >= 8, `found ${found} locks`)
})
