import assert from 'node:assert/strict'
import fc from 'fast-check'
import { headersFault } from '../../src/kernel/edge/headers.ts'
import { headers } from './generate.ts'
import { faultyPlaces } from './oracle.ts'

/** Generated header maps against the pure function. Resolves to how many of them were accepted and refused. */
export function checkHeaders(count: number, seed?: number): { accepted: number; refused: number } {
  const seen = { accepted: 0, refused: 0 }
  fc.assert(
    fc.property(headers, (sent) => {
      const faulty = faultyPlaces(sent)
      const found = headersFault(sent)
      if (found) {
        assert.ok(faulty.has(found.place), `${JSON.stringify(found)} is none of ${JSON.stringify([...faulty])}`)
        seen.refused++
      } else {
        assert.deepEqual([...faulty], [])
        seen.accepted++
      }
    }),
    { numRuns: count, seed },
  )
  return seen
}
