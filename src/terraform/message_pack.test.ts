import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { decode, encode, unknownValue, type Value } from './message_pack.ts'

const { value } = fc.letrec<{ value: Value }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.constantFrom<Value>(null, true, false, unknownValue),
    fc.maxSafeInteger(),
    fc.double({ noNaN: true }).filter((each) => !Object.is(each, -0)),
    fc.string({ unit: 'binary', maxLength: 300 }),
    fc.array(tie('value'), { maxLength: 20 }),
    fc.dictionary(fc.string(), tie('value'), { maxKeys: 20, noNullPrototype: true }),
  ),
}))

test('what is encoded is decoded to the same value', () => {
  fc.assert(fc.property(value, (each) => assert.deepEqual(decode(encode(each)), each)))
})

test('the forms that Terraform sends are read as the format defines them', () => {
  const forms: [string, Value][] = [
    ['c0', null],
    ['c2', false],
    ['07', 7],
    ['ff', -1],
    ['cc80', 128],
    ['cd0100', 256],
    ['ce00010000', 65_536],
    ['cf0000000100000000', 2 ** 32],
    ['d0df', -33],
    ['d1ff00', -256],
    ['d2ffff0000', -65_536],
    ['d3ffffffff00000000', -(2 ** 32)],
    ['ca3fc00000', 1.5],
    ['cb3ff8000000000000', 1.5],
    ['a161', 'a'],
    ['d90161', 'a'],
    ['da000161', 'a'],
    ['db0000000161', 'a'],
    ['9101', [1]],
    ['dc000101', [1]],
    ['81a16101', { a: 1 }],
    ['de0001a16101', { a: 1 }],
    ['d40000', unknownValue],
    // With a refinement: not null.
    ['c7030c8101c2', unknownValue],
  ]
  for (const [bytes, expected] of forms) assert.deepEqual(decode(Buffer.from(bytes, 'hex')), expected, bytes)
  assert.throws(() => decode(Buffer.from('a5', 'hex')), /ends too early/)
  assert.throws(() => decode(Buffer.from('c1', 'hex')), /no values that begin with 193/)
})
