import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import {
  base62OfWords,
  hashToken,
  isWellFormedInvitationSecret,
  isWellFormedSessionSecret,
  isWellFormedToken,
  newInvitationSecret,
  newSessionSecret,
  newToken,
} from './token.ts'

test('a new token has the form that secret scanners are given, and is never the same', () => {
  const tokens = Array.from({ length: 1_000 }, newToken)
  for (const token of tokens) {
    assert.match(token, /^gatehouse_[0-9A-Za-z]{49}$/)
    assert.ok(isWellFormedToken(token))
  }
  assert.equal(new Set(tokens).size, tokens.length)
})

test('the checksum is CRC-32 of what comes before it, in six digits of base 62', () => {
  // Worked out apart from this code: CRC-32 of 'gatehouse_' and 43 zeros.
  const secret = `gatehouse_${'0'.repeat(43)}`
  assert.ok(isWellFormedToken(`${secret}2G2s8p`))
})

test('a secret is all of its 256 bits in base 62, and nothing of it stays behind', () => {
  const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
  const numberOf = (text: string) => [...text].reduce((value, digit) => value * 62n + BigInt(digits.indexOf(digit)), 0n)
  const hexes = ['0', 'f', '1', '8'].map((digit) => digit.repeat(64))
  for (let bit = 0n; bit < 256n; bit++) hexes.push((1n << bit).toString(16).padStart(64, '0'))
  for (const hex of hexes) {
    const words = Uint16Array.from(hex.match(/.{4}/g) ?? [], (part) => Number.parseInt(part, 16))
    const text = base62OfWords(words, 43)
    assert.equal(text.length, 43)
    assert.equal(numberOf(text), BigInt(`0x${hex}`), hex)
    assert.ok(words.every((word) => word === 0))
  }
})

test('changing any one character, or swapping two neighbors, makes a token ill-formed', () => {
  const token = newToken()
  for (let at = 0; at < token.length; at++) {
    const other = token[at] === 'x' ? 'y' : 'x'
    assert.equal(isWellFormedToken(token.slice(0, at) + other + token.slice(at + 1)), false, `character ${at}`)
    const [one, next = ''] = [token[at], token[at + 1]]
    const swapped = `${token.slice(0, at)}${next}${one}${token.slice(at + 2)}`
    if (swapped !== token) assert.equal(isWellFormedToken(swapped), false, `characters ${at} and ${at + 1}`)
  }
})

test('a correct checksum does not excuse a wrong length, prefix or alphabet', () => {
  for (const text of [
    `gatehouse_${'0'.repeat(42)}4DXpuu`,
    `gatehouse_${'0'.repeat(44)}3KEx46`,
    `gatekeeper${'0'.repeat(43)}2eOzvO`,
    `gatehouse_${'-'.repeat(43)}0RXjQe`,
  ])
    assert.equal(isWellFormedToken(text), false, text)
})

test('what surrounds a token is not part of it', () => {
  const token = newToken()
  for (const text of [
    '',
    'gatehouse_',
    `${token}\n`,
    ` ${token}`,
    `${token}0`,
    token.slice(0, -1),
    token.toLowerCase(),
  ])
    assert.equal(isWellFormedToken(text), false, JSON.stringify(text))
})

test('only the SHA-256 of a token is stored', () => {
  const token = newToken()
  assert.deepEqual(hashToken(token), createHash('sha256').update(token).digest())
})

test('the secret of a session has its own prefix, and is no token', () => {
  const secret = newSessionSecret()
  assert.match(secret, /^gatehouse_session_[0-9A-Za-z]{49}$/)
  assert.ok(isWellFormedSessionSecret(secret))
  assert.ok(!isWellFormedToken(secret))
  assert.ok(!isWellFormedSessionSecret(newToken()))
  assert.ok(!isWellFormedSessionSecret(`${secret.slice(0, -1)}${secret.endsWith('x') ? 'y' : 'x'}`))
})

test('the secret of an invitation has its own prefix, and is neither a token nor of a session', () => {
  const secret = newInvitationSecret()
  assert.match(secret, /^gatehouse_invitation_[0-9A-Za-z]{49}$/)
  assert.ok(isWellFormedInvitationSecret(secret))
  assert.ok(!isWellFormedToken(secret) && !isWellFormedSessionSecret(secret))
  assert.ok(!isWellFormedInvitationSecret(newToken()) && !isWellFormedInvitationSecret(newSessionSecret()))
})
