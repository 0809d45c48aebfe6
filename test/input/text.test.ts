import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { nothingWasADefect } from '../harness/defects.ts'
import { sharedControlPlane } from '../harness/shared_control_plane.ts'

const plane = await sharedControlPlane({ after })
const admin = await plane.newAccount()
const { uri } = (await admin('POST', '/api_keys', {})).body

const limits = { description: 255, metadata: 4096 }
const characters = { one: 'x', two: 'é', three: '€', four: '🚀' }

/** Exactly this many bytes, of the character as far as it goes. */
const textOf = (character: string, bytes: number) =>
  character.repeat(Math.floor(bytes / Buffer.byteLength(character))) + 'x'.repeat(bytes % Buffer.byteLength(character))

const send = (fields: object) => [() => admin('POST', '/api_keys', fields), () => admin('PATCH', uri, fields)]

async function assertRefused(field: string, text: string, words: RegExp): Promise<void> {
  for (const request of send({ [field]: text })) {
    const { status, body } = await request()
    assert.equal(status, 400)
    assert.equal(body.error_code, 'ERR_INVALID_FIELD')
    assert.equal(body.details.field, field)
    assert.match(body.msg, words)
  }
}

for (const [field, limit] of Object.entries(limits)) {
  for (const [width, character] of Object.entries(characters)) {
    test(`${field} takes ${limit} bytes of ${width}-byte characters and refuses ${limit + 1}`, async () => {
      const fits = textOf(character, limit)
      assert.equal(Buffer.byteLength(fits), limit)
      for (const request of send({ [field]: fits })) {
        const { status, body } = await request()
        assert.ok(status === 200 || status === 201)
        assert.equal(body[field], fits)
        assert.equal((await admin('GET', body.uri)).body[field], fits)
      }
      await assertRefused(field, `${fits}x`, new RegExp(`at most ${limit} bytes of UTF-8 \\(it has ${limit + 1}\\)`))
      // Fewer characters than the limit, and still too many bytes.
      if (width !== 'one') await assertRefused(field, character.repeat(limit - 1), /bytes/)
    })
  }

  test(`${field} refuses the NUL character, wherever it is`, async () => {
    for (const text of ['\0', 'a\0', '\0a', 'a\0b']) await assertRefused(field, text, /NUL/)
  })

  test(`${field} refuses half a surrogate pair, which no UTF-8 can hold`, async () => {
    // As escapes in the JSON text: raw bytes of a surrogate would not even be UTF-8.
    for (const escapes of ['\\ud800', 'a\\ud800', '\\udc00', '\\udc00\\ud800', '\\ud83d\\ud83d\\ude80']) {
      for (const [method, path] of [
        ['POST', '/api_keys'],
        ['PATCH', uri],
      ]) {
        const rawBody = `{"${field}":"${escapes}"}`
        const { status, body } = await admin(String(method), String(path), undefined, { rawBody })
        assert.equal(status, 400, escapes)
        assert.equal(body.details.field, field)
        assert.match(body.msg, /surrogate/)
      }
    }
  })

  test(`${field} keeps every other character as it was sent: controls, combining marks, noncharacters`, async () => {
    const text = '\u0001\t\r\n\u007f\u0085\u2028\ufeffe\u0301\u202eabc\ufffe\uffff\u{10ffff}\\"\''
    for (const request of send({ [field]: text })) assert.equal((await request()).body[field], text)
    const rawBody = `{"${field}":"\\ud83d\\ude80 \\u00e9"}`
    assert.equal((await admin('POST', '/api_keys', undefined, { rawBody })).body[field], '🚀 é')
  })
}

nothingWasADefect(plane)
