export type Rule = { action: 'allow' | 'deny'; cidr: string }
/** Some policies, and addresses to be judged by all of them together. */
export type World = { policies: Rule[][]; addresses: string[] }

/** A seed, so that a fault can be seen again (mulberry32). */
export function seededRandom(seed: number): (below: number) => number {
  let state = seed | 0
  return (below) => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), state | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) % below
  }
}
type Random = ReturnType<typeof seededRandom>
type Family = 4 | 6
type Range = { family: Family; first: bigint; length: number }

const bitsOf = { 4: 32, 6: 128 } as const
const mapped = 0xffffn << 32n
// Where families meet, where they end, and where people live. Rules grow around a few of these, so that they nest.
const anchors: Record<Family, bigint[]> = {
  4: [0n, 0xffff_ffffn, 0x0a00_0000n, 0x7f00_0001n, 0xc000_0200n, 0x8000_0000n, 0x7fff_ffffn],
  6: [0n, 1n, mapped - 1n, mapped + (1n << 32n), (1n << 128n) - 1n, 0x2001_0db8n << 96n, 0xfe80n << 112n, 0x0a00_0000n],
}

export function makeWorld(random: Random): World {
  const pick = <Item>(items: readonly Item[]): Item => items[random(items.length)] as Item
  const randomBits = (count: number) => {
    let value = 0n
    for (let bits = 0; bits < count; bits += 16) value = (value << 16n) | BigInt(random(0x10000))
    return BigInt.asUintN(count, value)
  }
  const homes = ([4, 6] as const).flatMap((family) =>
    [0, 1].map(() => ({ family, value: random(2) ? pick(anchors[family]) : randomBits(bitsOf[family]) })),
  )

  const makeRange = (): Range => {
    const { family, value } = pick(homes)
    const bits = bitsOf[family]
    const length = pick([0, 1, 8, bits - 1, bits, random(bits + 1), random(bits + 1), bits - random(9)])
    // One bit changed makes a neighbor, often of the same size as another range.
    const near = random(3) ? value : value ^ (1n << BigInt(random(bits)))
    const hostBits = BigInt(bits - length)
    return { family, first: (near >> hostBits) << hostBits, length }
  }
  const bordersOf = ({ family, first, length }: Range): [Family, bigint][] => {
    const last = first + (1n << BigInt(bitsOf[family] - length)) - 1n
    const inside = first + (randomBits(128) % (last - first + 1n))
    const all = 1n << BigInt(bitsOf[family])
    return [first - 1n, first, inside, last, last + 1n]
      .filter((value) => value >= 0n && value < all)
      .map((value) => [family, value])
  }

  const policies = Array.from({ length: 1 + random(3) }, () =>
    Array.from({ length: random(7) }, () => ({
      range: makeRange(),
      action: pick(['allow', 'allow', 'deny'] as const),
    })),
  )
  const ranges = policies.flat().map(({ range }) => range)
  const addresses = ranges.flatMap(bordersOf)
  for (const { family, value } of homes) addresses.push([family, value], [family, randomBits(bitsOf[family])])
  return {
    policies: policies.map((rules) => rules.map(({ action, range }) => ({ action, cidr: writeRange(random, range) }))),
    addresses: addresses.map(([family, value]) => writeAddress(random, family, value)),
  }
}

function writeRange(random: Random, { family, first, length }: Range): string {
  const text = writeAddress(random, family, first)
  const writtenLength = family === 4 && text.includes(':') ? length + 96 : length
  const isWhole = writtenLength === (text.includes(':') ? 128 : 32)
  return isWhole && random(2) ? text : `${text}/${writtenLength}`
}

/** In one of the many ways in which it may be written; one IPv4 address in three as an IPv4-mapped IPv6 one. */
function writeAddress(random: Random, family: Family, value: bigint): string {
  const dotted = [24n, 16n, 8n, 0n].map((shift) => (value >> shift) & 0xffn).join('.')
  if (family === 4 && random(3)) return dotted
  const whole = family === 4 ? mapped | value : value
  let groups = Array.from({ length: 8 }, (_, i) => ((whole >> BigInt(112 - 16 * i)) & 0xffffn).toString(16))
  if (random(4) === 0) groups = groups.map((group) => group.padStart(4, '0'))
  if (random(4) === 0) groups = groups.map((group) => group.toUpperCase())
  if (random(4) === 0) groups.splice(6, 2, dotted)
  const zeros = groups.map((group, i) => (/^0+$/.test(group) ? i : -1)).filter((i) => i >= 0)
  if (zeros.length === 0 || random(4) === 0) return groups.join(':')
  const start = zeros[random(zeros.length)] as number
  let end = start + 1
  while (zeros.includes(end) && random(8)) end++
  return `${groups.slice(0, start).join(':')}::${groups.slice(end).join(':')}`
}
