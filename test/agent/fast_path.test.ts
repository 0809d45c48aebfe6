// Two proxies with the same records, one without a fast path: clients and upstreams must not be able to tell them apart.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { printed, sized } from '../harness/thorough.ts'
import { comparePaths } from './fast_path/compare.ts'

const requests = sized(2_000, 3_000)

// `npm run drill -- fast-path` does 100,000.
test(`${printed(requests)} generated requests: the upstream receives and the client gets the same on the fast and the careful path`, async (t) => {
  const { differences, statuses, fastShare, reached, events } = await comparePaths(t, requests)
  assert.deepEqual(differences, [])
  assert.equal(reached.fast, reached.careful)
  assert.deepEqual(events.fast, events.careful)
  // A comparison of refusals, or of the careful path with itself, would show little.
  assert.ok(fastShare > 0.3 && fastShare < 0.95, `${fastShare} on the fast path`)
  for (const status of ['200', '400', '403', '404', '405', '421', '503'])
    assert.ok((statuses.get(status) ?? 0) > 5, `${status}: ${statuses.get(status)}`)
  assert.ok(events.fast.length > 50, `${events.fast.length} events`)
})
