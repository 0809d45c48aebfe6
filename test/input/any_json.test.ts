import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import fc from 'fast-check'
import { nothingWasADefect } from '../harness/defects.ts'
import { sharedControlPlane } from '../harness/shared_control_plane.ts'
import { sized } from '../harness/thorough.ts'

const plane = await sharedControlPlane({ after })
const admin = await plane.newAccount()

// Every UTF-16 unit, so that lone surrogates and NUL are among them.
const anyText = fc.string({ unit: fc.integer({ min: 0, max: 0xffff }).map((unit) => String.fromCharCode(unit)) })
const longText = fc.string({ unit: 'binary', minLength: 200, maxLength: 300 })
const anyJson = fc.jsonValue({ stringUnit: 'binary' })
const oftenFine = fc.string({ unit: 'grapheme', maxLength: 40 })
const mostly = <Value, Other>(usual: fc.Arbitrary<Value>, ...others: fc.Arbitrary<Other>[]) =>
  fc.oneof({ weight: 2 * others.length, arbitrary: usual }, ...others)
/** Near what the operation takes: a purely random object hardly ever has a known field. */
const fields = {
  description: mostly(oftenFine, anyText, longText, fc.constant(null), anyJson),
  metadata: mostly(oftenFine, anyText, longText, fc.constant(''), anyJson),
  owner_id: mostly(fc.constant(admin.adminId), anyText, anyJson),
}
const nearlyRight = fc.oneof(
  fc.record(fields, { requiredKeys: [] }),
  fc.record({ ...fields, extra: anyJson }, { requiredKeys: [] }),
)

test('any JSON value as the body of POST /api_keys gives 201 or 400', async () => {
  const seen = new Map<number, number>()
  await fc.assert(
    fc.asyncProperty(fc.oneof(anyJson, nearlyRight), async (value) => {
      const { status, body } = await admin('POST', '/api_keys', value)
      seen.set(status, (seen.get(status) ?? 0) + 1)
      assert.ok(status === 201 || status === 400, `${status}`)
      if (status === 400) assert.equal(typeof body.details.field, 'string')
      const sent = value as { description?: string | null; metadata?: string | null }
      if (status === 201) {
        assert.equal(body.description ?? '', sent.description ?? '')
        assert.equal(body.metadata ?? '', sent.metadata ?? '')
      }
    }),
    { numRuns: sized(75, 300) },
  )
  // Otherwise the generator, not the service, would be what the test shows.
  assert.ok((seen.get(201) ?? 0) > sized(3, 10) && (seen.get(400) ?? 0) > sized(25, 100), JSON.stringify([...seen]))
})

test('any text as the body of POST /api_keys gives 201 or 400', async () => {
  const brokenJson = fc.tuple(nearlyRight, fc.nat(), anyText).map(([value, at, inserted]) => {
    const text = JSON.stringify(value)
    return text.slice(0, at % (text.length + 1)) + inserted + text.slice(at % (text.length + 1))
  })
  await fc.assert(
    fc.asyncProperty(brokenJson, async (rawBody) => {
      const { status } = await admin('POST', '/api_keys', undefined, { rawBody })
      assert.ok(status === 201 || status === 400, `${status}`)
    }),
    { numRuns: 100 },
  )
})

nothingWasADefect(plane)
