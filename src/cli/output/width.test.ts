import assert from 'node:assert/strict'
import { test } from 'node:test'
import stringWidth from 'string-width'
import { charactersOf, widthOf } from './width.ts'

const texts = [
  ...[
    '',
    'abc',
    'äöü',
    '—',
    '…',
    '©',
    '™',
    '¨',
    'e\u0301',
    'a\u0308\u0323b',
    '\t',
    '\u0000',
    '\u200b',
    'a\u200bb',
    '\ud800',
  ],
  ...['日本語', 'Ａ', 'ｶﾞ', 'ﾊﾝｶｸ', '한국어', '한', '하\u11ab', 'ㅋㅋ', 'ที่', 'हि', 'कि', 'தமி', 'ﷺ'],
  ...['😀x', '👍🏽', '👨‍👩‍👧‍👦', '🤷🏽‍♀️', '🏳️‍🌈', '🏳‍🌈', '🇩🇪🇯🇵', '🇩', '1️⃣', '1⃣', '☃', '☃️', '❤', '❤️', '©️'],
  '\u{1f3f4}\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}',
]

test('a text is as wide as string-width says, next to any other text', () => {
  for (const text of texts) {
    assert.equal(widthOf(text), stringWidth(text), JSON.stringify(text))
    for (const other of texts)
      assert.equal(widthOf(text + other), stringWidth(text + other), JSON.stringify(text + other))
  }
})

test('a character is what people see as one', () => {
  assert.deepEqual(charactersOf('e\u0301👨‍👩‍👧🇩🇪x'), ['e\u0301', '👨‍👩‍👧', '🇩🇪', 'x'])
})
