import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import fc from 'fast-check'
import { nothingWasADefect } from './harness/defects.ts'
import { newRoute } from './harness/fixtures.ts'
import { sharedControlPlane } from './harness/shared_control_plane.ts'
import { checkHeaders } from './headers/check.ts'
import { headers } from './headers/generate.ts'
import { faultyPlaces } from './headers/oracle.ts'

const plane = await sharedControlPlane({ after })
const admin = await plane.newAccount()

// `npm run drill -- headers` does 100,000.
test('2,000 generated header maps: what is accepted is RFC 9110 and not reserved, what is refused names an entry at fault', () => {
  const { accepted, refused } = checkHeaders(2_000)
  // Either alone would show little.
  assert.ok(accepted > 400 && refused > 400, `${accepted} accepted, ${refused} refused`)
})

test('200 of them through the API: accepted ones come back exactly as sent, refused ones name the entry and change nothing', async () => {
  const path = `${(await newRoute(admin)).uri}/request_headers`
  let kept = (await admin('PUT', path, {})).text
  for (const sent of fc.sample(headers, 200)) {
    const faulty = faultyPlaces(sent)
    const { status, text, body } = await admin('PUT', path, sent)
    if (faulty.size === 0) {
      assert.equal(status, 200, text)
      kept = JSON.stringify({ enabled: true, ...sent })
      assert.equal(text, kept)
    } else {
      assert.deepEqual([status, body.error_code], [400, 'ERR_INVALID_FIELD'])
      assert.ok(faulty.has(body.details.field), `${text} names none of ${JSON.stringify([...faulty])}`)
    }
    assert.equal((await admin('GET', path)).text, kept)
  }
})

nothingWasADefect(plane)
