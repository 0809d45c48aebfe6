import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Id } from './ids.ts'
import { maxPageSize, rowsToFetch, toPage } from './paging.ts'

const uri = 'https://api.example/things'
const rows = (count: number) => Array.from({ length: count }, (_, index) => ({ id: `ak_${index}` as Id }))

test('one row more than the page shows is fetched', () => {
  assert.equal(rowsToFetch({ limit: 10 }), 11)
  assert.equal(rowsToFetch({}), maxPageSize + 1)
})

test('the extra row is not shown, and means that there is a next page after the last shown', () => {
  const page = toPage(rows(3), { limit: 2 }, uri)
  assert.deepEqual(page.items, rows(2))
  assert.equal(page.next_page_uri, `${uri}?limit=2&before_id=ak_1`)
})

test('without an extra row there is no next page', () => {
  for (const count of [0, 1, 2]) {
    assert.deepEqual(toPage(rows(count), { limit: 2 }, uri), { items: rows(count), uri, next_page_uri: null })
  }
})

test('the next page keeps every filter, replaces before_id, and adds no limit that was not given', () => {
  const query = { before_id: 'ak_9', operation: 'a&b=c d/é', owner_id: undefined }
  const { next_page_uri } = toPage(rows(maxPageSize + 1), query, uri)
  const next = new URL(next_page_uri ?? '')
  assert.deepEqual(Object.fromEntries(next.searchParams), { before_id: 'ak_99', operation: 'a&b=c d/é' })
})

test('a query object without a prototype, as parsed from a URL, works the same', () => {
  const query = Object.assign(Object.create(null), { limit: 1 })
  assert.equal(toPage(rows(2), query, uri).next_page_uri, `${uri}?limit=1&before_id=ak_0`)
})
