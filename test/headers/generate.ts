import fc from 'fast-check'
import type { Sent } from './oracle.ts'

const tokenUnit = fc.constantFrom(..."abcXYZ019!#$%&'*+-.^_`|~")
const hostileUnit = fc.constantFrom(...'\r\n\0\x7f\t\x1f\x80é\u212aſ🚀 :;,"()/<=>?@[]\\{}', '\r\n', '\r\n ', '\ud800')

const token = fc.string({ unit: tokenUnit, minLength: 1, maxLength: 20 })
const known = fc.constantFrom(
  ...['Connection', 'Content-Length', 'Expect', 'Keep-Alive', 'TE', 'Trailer', 'Transfer-Encoding', 'Upgrade', 'Host'],
  ...[
    'Proxy-Authorization',
    'Proxy-Connection',
    'Proxy-',
    'Proxy',
    'X-Forwarded-For',
    'X-Forwarded-Host',
    'X-Forwarded-Proto',
  ],
  ...[
    'Cookie',
    'Authorization',
    'X-Forwarded',
    'Trailers',
    'X-TE',
    'Content-Type',
    '__proto__',
    'constructor',
    'toString',
    '7',
  ],
)
/** The same name with other letters small, and `-` and `_` in each other's place. */
const disguised = fc.tuple(known, fc.infiniteStream(fc.boolean())).map(([name, choices]) =>
  [...name]
    .map((letter) => {
      const { value: change } = choices.next()
      if (!change) return letter
      if (letter === '-') return '_'
      return letter === letter.toLowerCase() ? letter.toUpperCase() : letter.toLowerCase()
    })
    .join(''),
)
/** Something that is fine, with something that is not at its beginning, end or middle. */
const spoiled = (fine: fc.Arbitrary<string>) =>
  fc
    .tuple(fine, hostileUnit, fc.nat())
    .map(([text, unit, at]) => text.slice(0, at % (text.length + 1)) + unit + text.slice(at % (text.length + 1)))
const ofLength = (min: number, max: number, unit: string) =>
  fc.integer({ min, max }).map((length) => unit.repeat(length).slice(0, length))

const name = fc.oneof(
  { weight: 30, arbitrary: token },
  { weight: 4, arbitrary: disguised },
  { weight: 1, arbitrary: spoiled(fc.oneof(token, known)) },
  {
    weight: 1,
    arbitrary: fc.oneof(
      ofLength(255, 258, 'n'),
      ofLength(126, 130, 'é'),
      fc.constant(''),
      fc.string({ unit: 'binary' }),
    ),
  },
)

const text = fc.string({ unit: fc.constantFrom(...'aZ09 ;="\'(){}~!'), maxLength: 30 })
const value = fc.oneof(
  { weight: 40, arbitrary: text.map((sent) => sent.trim()) },
  { weight: 1, arbitrary: spoiled(text) },
  { weight: 1, arbitrary: fc.oneof(text, ofLength(4_094, 4_098, 'v'), ofLength(2_046, 2_050, 'é')) },
  { weight: 1, arbitrary: fc.constantFrom('', ' ', ' a', 'a ', '\ta', 'a\r\n b', 'a\r\nX: b', 'a\0', '\x7f', 'é') },
)

/** Most are short, because one fault hides the others; some are as long as it is allowed, and one more. */
const sized = <T>(entry: fc.Arbitrary<T>) =>
  fc.oneof(
    { weight: 12, arbitrary: fc.array(entry, { maxLength: 4 }) },
    { weight: 1, arbitrary: fc.array(entry, { minLength: 48, maxLength: 52 }) },
  )
/** Fifty different good names: what random ones hardly ever are together. */
const numbered = fc
  .integer({ min: 49, max: 51 })
  .map((count) => Array.from({ length: count }, (_, index) => `X-${index}`))

const names = fc.oneof({ weight: 15, arbitrary: sized(name) }, { weight: 1, arbitrary: numbered })
const withRepetition = fc.tuple(names, fc.boolean(), fc.nat()).map(([sent, repeat, at]) => {
  const again = sent[at % (sent.length || 1)]
  return repeat && again !== undefined && at % 5 === 0
    ? [...sent, at % 2 ? again.toUpperCase() : again.toLowerCase()]
    : sent
})

export const headers: fc.Arbitrary<Sent> = fc.record({
  // Object.fromEntries makes an own property of __proto__ too, as JSON.parse does.
  add: withRepetition.chain((sent) =>
    fc
      .array(value, { minLength: sent.length, maxLength: sent.length })
      .map((values) => Object.fromEntries(sent.map((key, index) => [key, values[index] ?? '']))),
  ),
  remove: withRepetition,
})
