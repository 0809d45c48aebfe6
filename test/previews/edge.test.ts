// What previews name, beside who gets through a real edge node after the change. `npm run drill -- previews` makes many more changes.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { printed, sized } from '../harness/thorough.ts'
import { previewAtEdge } from './upstream.ts'

const changes = sized(8, 100)

test(`for ${printed(changes)} random changes, exactly those addresses are newly refused by an edge node that the preview named`, async () => {
  const counts = await previewAtEdge({ after }, changes)
  console.log(counts)
  assert.equal(counts.changes, changes)
})
