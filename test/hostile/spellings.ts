/**
 * Other spellings of a path that some server takes for the path itself. Each is made by one or two transformations, each of a
 * kind that servers are known to undo.
 */
type Transformation = (path: string) => string

const inFront = [
  ...[
    '/',
    '//',
    '//x',
    '///x',
    '//x:80',
    '//x@y',
    '//x;y',
    '/.',
    '/.//x',
    '/x/..',
    '/x/..//y',
    '/x//..',
    '/..',
    '/../..',
  ],
  ...[
    '/%2e',
    '/%2e%2e',
    '/x/%2e%2e',
    '/x/.%2E',
    '/x/..;',
    '/x;a=b/..',
    '/;',
    '/;x',
    '/%3b',
    '/%2f',
    '/%2F%2Fx',
    '/%5c',
  ],
  ...['/\\', '/\\x', '/x\\..', '/x/..\\', '/x%2f..', '/x/..%2f', '/%252f', '/%252e', '/x/%252e%252e', '/x/..%252f'],
  ...['/%c0%af', '/x/%c0%ae%c0%ae', '/%00', '/x/..%00', '/%0a', '/%09', '/index.php', '/INDEX.PHP', '/x.php/..'],
  ...[
    '/(S(abc))',
    '/(A(x)S(y))',
    'http://HOST',
    'http://HOST//x',
    'https://HOST:443',
    'HTTP://HOST/.//x',
    '/?/..',
    '/#/..',
  ],
].map(
  (text): Transformation =>
    (path) =>
      `${text}${path}`,
)

const behind = [
  ...[
    '/',
    '//',
    '/.',
    '/./',
    '/x/..',
    '/%2e',
    '/..%2f',
    ';',
    ';x=1',
    '/;',
    ';/',
    '%3b',
    '%3Bx',
    '.',
    '..',
    '...',
    '%20',
    '%09',
  ],
  ...[
    '%00',
    '%00.html',
    '%0a',
    '%0D%0A',
    '%3f',
    '%3fx',
    '%23',
    '%2500',
    '?',
    '?x=/',
    '??',
    '#',
    '%2f',
    '%5c',
    '\\',
    '%252f',
  ],
].map(
  (text): Transformation =>
    (path) =>
      `${path}${text}`,
)

const hex = (character: string): string => character.charCodeAt(0).toString(16)
const replaceLetters = (path: string, made: (letter: string) => string): string => path.replaceAll(/[a-z]/g, made)
const replaceFirst = (path: string, made: (letter: string) => string): string => path.replace(/[a-z]/, made)
const letters: Transformation[] = [
  (path) => path.toUpperCase(),
  (path) => replaceFirst(path, (letter) => letter.toUpperCase()),
  (path) => path.replaceAll(/[aeiou]/g, (letter) => letter.toUpperCase()),
  (path) => replaceFirst(path, (letter) => `%${hex(letter)}`),
  (path) => replaceLetters(path, (letter) => `%${hex(letter)}`),
  (path) => replaceFirst(path, (letter) => `%${hex(letter.toUpperCase())}`),
  (path) => replaceFirst(path, (letter) => `%25${hex(letter)}`),
  (path) => replaceFirst(path, (letter) => `%2525${hex(letter)}`),
  (path) => replaceFirst(path, (letter) => `%c1%${(letter.charCodeAt(0) - 0x40 + 0x80).toString(16)}`),
  (path) => path.replace('k', '%e2%84%aa'),
  (path) => path.replace('s', '%c5%bf'),
]
const between = [
  ...[
    '//',
    '///',
    '/./',
    '/x/../',
    '/x/%2e%2e/',
    '%2f',
    '%2F',
    '%5c',
    '\\',
    '%252f',
    '%c0%af',
    ';/',
    ';a=b/',
    '/;/',
    '%00/',
  ],
  ...['/.;/', '/x/..;/', '/%09', './', '%20/', '/x//../'],
].map(
  (text): Transformation =>
    (path) =>
      path.replaceAll(/(?<=.)\//g, text),
)

const kinds = [inFront, behind, letters, between]

/** Combines every transformation of one kind with some of another, so that all pairs of kinds occur. */
export function spellingsOf(path: string, most = Number.POSITIVE_INFINITY): string[] {
  const single = kinds.flatMap((kind) => kind.map((transform) => transform(path)))
  const pairs = kinds.flatMap((kind, at) =>
    kinds.slice(at + 1).flatMap((other, place) =>
      kind.flatMap((first, index) =>
        [0, 3].map((step) => {
          const second = other[(index * (place + 2) + step) % other.length] ?? ((same) => same)
          // The separators inside of the path first: what is put in front has slashes of its own.
          return kind === between ? second(first(path)) : first(second(path))
        }),
      ),
    ),
  )
  const all = [...new Set([...single, ...pairs])].filter((spelling) => spelling !== path)
  if (all.length <= most) return all
  const step = all.length / most
  return Array.from({ length: most }, (_, index) => all[Math.floor(index * step)] as string)
}
