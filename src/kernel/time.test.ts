import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseRfc3339 } from './time.ts'

test('a day that its month does not have is no moment, in any zone', () => {
  for (const text of [
    '2028-02-29T23:30:00.000Z',
    '2028-02-29T23:30:00-05:00',
    '2028-03-01T00:30:00+05:30',
    '2027-12-31T23:59:59-12:00',
    '2028-01-01T00:00:00+14:00',
  ])
    assert.equal(parseRfc3339(text), Date.parse(text), text)
  for (const text of [
    '2027-02-29T00:00:00.000Z',
    '2027-02-28T24:00:01Z',
    '2028-02-30T12:00:00+05:30',
    '2027-02-29T23:30:00-05:00',
    '2027-04-31T00:30:00+14:00',
    '2027-04-31T23:30:00-12:00',
  ])
    assert.equal(parseRfc3339(text), undefined, text)
})
