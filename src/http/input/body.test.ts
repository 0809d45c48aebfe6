import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { loadScaledTimeout } from '../../../test/harness/load_scaled_timeout.ts'
import { Refusal } from '../../kernel/errors.ts'
import { parseJson } from './body.ts'

const refused = (text: string) =>
  assert.throws(
    () => parseJson(text),
    (error) => error instanceof Refusal && error.code === 'ERR_INVALID_JSON',
    text,
  )

test('any JSON is read as JSON.parse reads it, however it is indented', () => {
  fc.assert(
    fc.property(fc.jsonValue({ stringUnit: 'binary' }), fc.constantFrom(0, 2, '\t'), (value, indent) => {
      const text = JSON.stringify(value, null, indent)
      assert.deepEqual(parseJson(text), JSON.parse(text))
    }),
  )
})

test('a repeated key is found in any object of any JSON', () => {
  const object = fc.dictionary(fc.string({ unit: 'binary' }), fc.jsonValue(), { minKeys: 1, maxKeys: 5 })
  fc.assert(
    fc.property(object, fc.nat(), fc.jsonValue(), (fields, at, again) => {
      const keys = Object.keys(fields)
      const key = keys[at % keys.length] ?? ''
      const escaped = [...key]
        .flatMap((character) => character.split(''))
        .map(escapedUnit)
        .join('')
      const inner = JSON.stringify(fields).slice(0, -1)
      for (const repeated of [JSON.stringify(key), `"${escaped}"`]) {
        refused(`${inner},${repeated}:${JSON.stringify(again)}}`)
        refused(`{"list":[1,"x",${inner}, ${repeated} : ${JSON.stringify(again)}}]}`)
      }
    }),
  )
})

const escapedUnit = (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`

test('the same key in different objects, and a key that is also a value, are no repetition', () => {
  for (const text of [
    '{"a":{"a":{"a":1}}}',
    '[{"a":1},{"a":1}]',
    '{"a":"a","b":["a","a",{"a":"b"}],"c":"b"}',
    '{"a":"\\",\\"a\\":1","b":"{","c":"\\\\"}',
    '{"a":[],"b":{},"c":[[]],"d":[{}]}',
  ])
    assert.deepEqual(parseJson(text), JSON.parse(text))
})

test('the repeated key is reported decoded, not as it was escaped', () => {
  assert.throws(() => parseJson('{"a":1,"\\u0061":2}'), /repeats the key "a"/)
})

test('a key __proto__ is a key, and sets no prototype', () => {
  const value = parseJson('{"__proto__":{"admin":true}}') as object
  assert.deepEqual(Object.keys(value), ['__proto__'])
  assert.equal((value as { admin?: boolean }).admin, undefined)
})

test('what is not JSON is refused', () => {
  for (const text of ['', '{', '{"a":1,}', "{'a':1}", '[1,]', 'NaN', '"\n"', '{}{}', '\u00a0{}']) refused(text)
})

test('long and deep texts are read in time that grows with their length', {
  timeout: loadScaledTimeout(10_000),
}, () => {
  const deep = 200_000
  assert.ok(parseJson('['.repeat(deep) + ']'.repeat(deep)))
  refused('"'.padEnd(deep, '\\'))
  assert.equal((parseJson(JSON.stringify('\\"'.repeat(deep))) as string).length, 2 * deep)
  assert.equal((parseJson(JSON.stringify(Array(deep).fill({ a: 1 }))) as unknown[]).length, deep)
})
