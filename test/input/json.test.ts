import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { nothingWasADefect } from '../harness/defects.ts'
import { type HeaderLine, headersOf, json, rawExchange } from '../harness/raw.ts'
import { sharedControlPlane } from '../harness/shared_control_plane.ts'

const plane = await sharedControlPlane({ after })
const admin = await plane.newAccount()
const { uri } = (await admin('POST', '/api_keys', { description: 'kept' })).body

const post = (rawBody: string | Buffer) => admin('POST', '/api_keys', undefined, { rawBody })
const patch = (rawBody: string | Buffer) => admin('PATCH', uri, undefined, { rawBody })

async function assertInvalidJson(rawBody: string | Buffer, what = String(rawBody)): Promise<void> {
  for (const send of [post, patch]) {
    const { status, body } = await send(rawBody)
    assert.deepEqual([status, body.error_code], [400, 'ERR_INVALID_JSON'], what.slice(0, 100))
  }
}

test('the keys __proto__, constructor and prototype are unknown fields like any other', async () => {
  for (const key of ['__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty']) {
    for (const value of ['{}', 'null', '"x"', '{"description":"inherited"}', '{"prototype":{"admin":true}}']) {
      for (const send of [post, patch]) {
        const { status, body } = await send(`{"${key}":${value}}`)
        assert.deepEqual([status, body.error_code, body.details.field], [400, 'ERR_INVALID_FIELD', key])
      }
    }
  }
  const { body } = await post('{}')
  assert.ok(!('description' in body), 'nothing was added to the prototype of later requests')
})

test('an unknown field is named, even with unusual characters in its name', async () => {
  for (const key of ['a.b', 'a/b', 'a~1b', '0', ' ', 'Ünïcode', 'a[0]']) {
    const { status, body } = await post(JSON.stringify({ [key]: 1 }))
    assert.deepEqual([status, body.details.field], [400, key])
  }
  const nameless = (await post('{"":1}')).body
  assert.equal(nameless.details.field, '""')
  assert.match(nameless.msg, /^"" is not a known field/)
})

test('the same key twice in one object is refused, at any depth and however it is written', async () => {
  for (const text of [
    '{"description":"a","description":"a"}',
    '{"description":"a","metadata":"m","description":"b"}',
    '{"description":"a","\\u0064escription":"b"}',
    '{"\\u0064\\u0065scription":"a","description":"b"}',
    '{"metadata":{"a":1,"a":2}}',
    '{"metadata":[[{"a":[{}],"b":{},"a":2}]]}',
    '[{"a":1},{"b":1,"b":1}]',
    '{"__proto__":1,"__proto__":2}',
    '{"":1,"":2}',
    '{"\\"":1,"\\u0022":2}',
    '{"a\\\\":1,"a\\\\":2}',
  ]) {
    await assertInvalidJson(text)
    assert.match((await post(text)).body.msg, /repeats the key/)
  }
  assert.equal((await admin('GET', uri)).body.description, 'kept')
})

test('keys that only look repeated are accepted', async () => {
  for (const fields of [
    { description: 'description', metadata: 'description' },
    { description: '","description":"x', metadata: '{"a":1,"a":2}' },
    { description: '\\', metadata: '\\"' },
    { description: '{[,:', metadata: ']}",' },
  ]) {
    const { status, body } = await post(JSON.stringify(fields))
    assert.equal(status, 201)
    assert.equal(body.description, fields.description)
    assert.equal(body.metadata, fields.metadata)
  }
})

test('bytes that are not UTF-8 are refused', async () => {
  for (const bytes of [
    [0xff],
    [0x80],
    [0xc0, 0xaf], // overlong
    [0xed, 0xa0, 0x80], // a surrogate
    [0xf4, 0x90, 0x80, 0x80], // beyond U+10FFFF
    [0xe2, 0x82], // cut off
    [0xe9], // é in Latin-1
  ]) {
    const text = Buffer.concat([Buffer.from('{"description":"'), Buffer.from(bytes), Buffer.from('"}')])
    await assertInvalidJson(text, bytes.toString())
  }
  await assertInvalidJson(Buffer.from('{}', 'utf16le'), 'UTF-16')
})

test('a byte order mark before the JSON is ignored, as RFC 8259 allows; anywhere else it is not JSON', async () => {
  assert.equal((await post('\ufeff{"description":"marked"}')).body.description, 'marked')
  for (const text of ['\ufeff', '{}\ufeff', '\ufeff\ufeff{}']) await assertInvalidJson(text)
})

test('an empty body and broken JSON are refused', async () => {
  for (const text of [
    ...[
      '',
      ' ',
      '\n',
      '{',
      '}',
      '[',
      '{}{}',
      '{} x',
      '{,}',
      '{"description":"a",}',
      '{"description"}',
      '{"description":}',
    ],
    ...[
      "{'description':'a'}",
      '{description:"a"}',
      '{"description":"a}',
      '{"description":"\\x"}',
      '{"description":"\n"}',
    ],
    ...[
      '{"description":"\\ud8"}',
      '// c\n{}',
      '{}//',
      'undefined',
      'NaN',
      '{"metadata":01}',
      '{"metadata":.5}',
      '\0',
      '{}\0',
    ],
  ])
    await assertInvalidJson(text)
})

test('a body that is JSON but not an object is refused, naming the body', async () => {
  for (const text of ['null', 'true', '0', '-1e400', '"text"', '[]', '[{}]']) {
    for (const send of [post, patch]) {
      const { status, body } = await send(text)
      assert.deepEqual([status, body.error_code, body.details.field], [400, 'ERR_INVALID_FIELD', 'body'], text)
    }
  }
})

test('deep nesting is refused without harm, however deep a body allows', async () => {
  const depth = 30_000
  await assertInvalidJson('['.repeat(depth))
  await assertInvalidJson('{"a":'.repeat(10_000))
  for (const [text, field] of [
    ['['.repeat(depth) + ']'.repeat(depth), 'body'],
    [`{"description":${'['.repeat(depth)}${']'.repeat(depth)}}`, 'description'],
    [`{"metadata":${'{"a":'.repeat(10_000)}1${'}'.repeat(10_000)}}`, 'metadata'],
  ] as const) {
    const { status, body } = await post(text)
    assert.deepEqual([status, body.details.field], [400, field])
  }
})

const contentTypes = {
  accepted: [
    ...['application/json', 'APPLICATION/JSON', 'application/json; charset=utf-8', 'application/json;charset=UTF-8'],
    ...['application/json; charset="utf-8"', 'application/json ; charset=utf-8', ' application/json '],
  ],
  refused: [
    ...['', 'json', '*/*', 'text/plain', 'text/json', 'application/jsonp', 'application/vnd.api+json', 'text/html'],
    ...['application/x-www-form-urlencoded', 'multipart/form-data; boundary=x', 'application/octet-stream'],
    ...['application/json;charset=latin1', 'application/json; charset=utf-16', 'application/json; charset=utf8'],
    ...['application/json;', 'application/json; charset', 'application/json; charset=', 'application/json; version=2'],
    ...['application/json; charset=utf-8; charset=utf-8', 'application/json; charset=utf-8; x=y', 'application/ json'],
    ...[
      'application/json; charset="utf-8',
      'application/json; charset=utf-8"',
      'application/json x',
      '"application/json"',
    ],
    ...['application/json, application/json', 'application/json, text/plain', 'text/plain; application/json', ';/,'],
  ],
}
const withTypes = (...types: string[]) =>
  rawExchange(plane, {
    method: 'POST',
    path: '/api_keys',
    headers: [...headersOf(admin.token), ...types.map((type): HeaderLine => ['Content-Type', type])],
    body: '{}',
  })

test('application/json is the content type, in any case, with no charset or UTF-8', async () => {
  for (const type of contentTypes.accepted) assert.equal((await withTypes(type)).status, 201, type)
})

test('any other content type gets 415, and so do none and two', async () => {
  for (const types of [
    [],
    ['application/json', 'application/json'],
    ['application/json', 'text/plain'],
    ...contentTypes.refused.map((type) => [type]),
  ]) {
    const { status, body } = await withTypes(...types)
    assert.deepEqual([status, body.error_code], [415, 'ERR_CONTENT_TYPE'], types.join(' and '))
  }
})

test('JSON may come in chunks, cut anywhere, also within a character', async () => {
  const bytes = Buffer.from('{"description":"é€🚀"}')
  const chunks = [...bytes].map((byte) =>
    Buffer.concat([Buffer.from('1\r\n'), Buffer.from([byte]), Buffer.from('\r\n')]),
  )
  const { status, body } = await rawExchange(plane, {
    method: 'POST',
    path: '/api_keys',
    headers: [...headersOf(admin.token), json, ['Transfer-Encoding', 'chunked']],
    body: Buffer.concat([...chunks, Buffer.from('0\r\n\r\n')]),
  })
  assert.equal(status, 201)
  assert.equal(body.description, 'é€🚀')
})

nothingWasADefect(plane)
