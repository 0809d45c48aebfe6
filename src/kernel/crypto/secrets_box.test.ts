import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { createSecretsBox, readSecretsKeys } from './secrets_box.ts'
import { UnreadableSecret } from './unreadable_secret.ts'

const [first, second] = [randomBytes(32), randomBytes(32)]

test('what is sealed opens with the same key and context only', () => {
  const box = createSecretsBox([first])
  const sealed = box.seal('a private key', 'row 1')
  assert.equal(box.open(sealed, 'row 1'), 'a private key')
  assert.throws(() => box.open(sealed, 'row 2'), UnreadableSecret)
  const changed = { ...sealed, sealed: Buffer.from(sealed.sealed) }
  changed.sealed[20] = (changed.sealed[20] ?? 0) ^ 1
  assert.throws(() => box.open(changed, 'row 1'), UnreadableSecret)
  assert.throws(() => box.open({ ...sealed, sealed: sealed.sealed.subarray(0, 20) }, 'row 1'), UnreadableSecret)
  assert.notDeepEqual(box.seal('a private key', 'row 1').sealed, sealed.sealed)
})

test('the first key seals, and every key opens', () => {
  const sealed = createSecretsBox([first]).seal('secret', 'row')
  const rotating = createSecretsBox([second, first])
  assert.equal(rotating.open(sealed, 'row'), 'secret')
  assert.equal(rotating.seal('secret', 'row').keyId, rotating.keyId)
  assert.throws(
    () => createSecretsBox([second]).open(sealed, 'row'),
    new RegExp(`the key ${sealed.keyId}, which is not in`),
  )
})

test('a file of keys is read line by line, and a fault names the line without repeating it', () => {
  const [one, two] = [first.toString('base64'), second.toString('base64')]
  assert.deepEqual(readSecretsKeys(`# since May\n${one}\r\n\n  ${two}\n`), [first, second])
  assert.throws(() => readSecretsKeys('\n# none\n'), /no key/)
  for (const wrong of ['secret', one.slice(0, 40), `${one}${two}`, first.toString('hex')])
    assert.throws(
      () => readSecretsKeys(`${one}\n${wrong}\n`),
      (error: Error) => /line 2 is not a key/.test(error.message) && !error.message.includes(wrong),
    )
})
