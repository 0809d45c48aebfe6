import assert from 'node:assert/strict'
import { test } from 'node:test'
import { nothing, sql, toStatement } from './sql.ts'

test('every interpolated value becomes a parameter, however it looks', () => {
  const { text, values } = toStatement(sql`select ${"'; drop table x --"}, ${null}, ${['a', 'b']} where ${true}`)
  assert.equal(text, 'select $1, $2, $3 where $4')
  assert.deepEqual(values, ["'; drop table x --", null, ['a', 'b'], true])
})

test('nested SQL becomes part of the text, and its parameters continue the numbering', () => {
  const condition = sql`b = ${2} and ${sql`c = ${3}`}`
  const { text, values } = toStatement(sql`select ${1} where ${condition} ${nothing} limit ${4}`)
  assert.equal(text, 'select $1 where b = $2 and c = $3  limit $4')
  assert.deepEqual(values, [1, 2, 3, 4])
})

test('a fragment used twice adds its parameters twice', () => {
  const fragment = sql`${'x'}`
  assert.deepEqual(toStatement(sql`${fragment}, ${fragment}`).values, ['x', 'x'])
})

test('an object that only looks like a fragment is a parameter', () => {
  const forged = { strings: ['drop table x'], parts: [] }
  assert.equal(toStatement(sql`select ${forged}`).text, 'select $1')
})

test('statements of one text share a name, and others do not', () => {
  const named = (value: number) => toStatement(sql`select ${value}`).name
  assert.equal(named(1), named(2))
  assert.notEqual(named(1), toStatement(sql`select ${1}, 1`).name)
  // PostgreSQL cuts names at 63 bytes.
  assert.ok(named(1).length <= 63)
})
