import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fromDatabase, isAnswer, isUnavailable } from './failures.ts'

/** As if the connection to the database had thrown it. */
const thrown = <Thrown>(error: Thrown): Thrown => {
  assert.throws(() => fromDatabase(error))
  return error
}

test('every cause of an unreachable database is recognized as such, and our own bugs are not', () => {
  const outOfReach = [
    'ECONNREFUSED',
    'EHOSTUNREACH',
    'ENETUNREACH',
    'ETIMEDOUT',
    '57P01',
    '57P03',
    '53300',
    '53100',
    '25006',
    '40P01',
    '08006',
    // Not migrated yet.
    '42P01',
    // Sent behind a statement that could not be prepared.
    '26000',
  ]
  for (const code of outOfReach) assert.ok(isUnavailable(thrown({ code })), code)
  for (const code of ['23505', '22P02', 'XX000', 'ERR_ASSERTION'])
    assert.ok(!isUnavailable(thrown({ code, message: 'no' })), code)
  assert.ok(isUnavailable(thrown(new Error('Connection terminated unexpectedly'))))
  assert.ok(!isUnavailable(undefined))
})

test("a client's broken connection and a missing file are not the database", () => {
  for (const code of ['ECONNRESET', 'ENOENT', 'EPIPE'])
    assert.ok(!isUnavailable(Object.assign(new Error(), { code })), code)
})

test("only PostgreSQL's answer to COMMIT proves that nothing was committed", () => {
  for (const code of ['23503', '40001', '40P01', 'P0001', 'XX000']) assert.ok(isAnswer({ code }), code)
  for (const code of ['EPIPE', 'ECONNRESET', '08006', '57P01', '40003', undefined]) assert.ok(!isAnswer({ code }), code)
})
