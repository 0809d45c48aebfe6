// What address matching costs: `node bench/ip.ts`
import { BlockList } from 'node:net'
import { type Address, formatAddress, parseAddress } from '../src/kernel/ip/address.ts'
import { maskOfWord } from '../src/kernel/ip/cidr.ts'
import { compilePolicy, lookup, type Rule } from '../src/kernel/ip/ranges.ts'

// A fixed seed, so that two runs measure the same rules (mulberry32).
let seed = 20260101
function random(): number {
  seed = (seed + 0x6d2b79f5) | 0
  let t = Math.imul(seed ^ (seed >>> 15), seed | 1)
  t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
  return (t ^ (t >>> 14)) >>> 0
}

const addressOf: Record<4 | 6, () => Address> = {
  4: () => ({ family: 4, value: random() }),
  // All in 2001::/16: spread over the whole of IPv6, the first word alone would nearly always decide.
  6: () => ({ family: 6, w0: (0x20010000 | (random() >>> 16)) >>> 0, w1: random(), w2: random(), w3: random() }),
}

/** Half single addresses, half ranges of up to 65,536, every fifth a deny; from 100,000 on IPv4 ones begin to nest. */
function randomRule(family: 4 | 6): Rule {
  const prefixLength = (family === 4 ? 32 : 128) - (random() % 2) * (random() % 17)
  const address = addressOf[family]()
  const network: Address =
    address.family === 4
      ? { family: 4, value: (address.value & maskOfWord(prefixLength, 0)) >>> 0 }
      : { ...address, w3: (address.w3 & maskOfWord(prefixLength, 3)) >>> 0 }
  return { cidr: { network, prefixLength }, action: random() % 5 === 0 ? 'deny' : 'allow' }
}

function milliseconds(work: () => void): number {
  const start = performance.now()
  work()
  return performance.now() - start
}

/** Median, with the smallest and the largest. */
function summary(values: number[], digits: number): string {
  const sorted = values.toSorted((a, b) => a - b).map((value) => value.toFixed(digits))
  return `${sorted[sorted.length >> 1]} (${sorted[0]}–${sorted.at(-1)})`
}

let answers = 0
for (const family of [4, 6] as const) {
  const addresses = Array.from({ length: 200_000 }, addressOf[family])
  for (const count of [10, 1_000, 100_000, 1_000_000]) {
    const rules = Array.from({ length: count }, () => randomRule(family))
    const compileTimes = Array.from({ length: 5 }, () => milliseconds(() => compilePolicy(rules)))
    const policy = compilePolicy(rules)
    const lookUpAll = () => {
      for (const address of addresses) answers += lookup(policy, address)?.rule ?? 1
    }
    const rates = Array.from({ length: 7 }, () => addresses.length / milliseconds(lookUpAll) / 1000)
    const ranges = policy[`v${family}`].verdicts.length
    const title = `IPv${family}, ${count} rules, ${ranges} ranges:`
    console.log(`${title} compile ${summary(compileTimes, 1)} ms, ${summary(rates, 1)} million look-ups/s`)
  }

  const rules = Array.from({ length: 1_000 }, () => randomRule(family))
  const policy = compilePolicy(rules)
  const blockList = new BlockList()
  for (const { cidr } of rules) blockList.addSubnet(formatAddress(cidr.network), cidr.prefixLength, `ipv${family}`)
  const texts = addresses.slice(0, 20_000).map(formatAddress)
  const ours = () => {
    for (const text of texts) answers += lookup(policy, parseAddress(text) as Address)?.rule ?? 1
  }
  const theirs = () => {
    for (const text of texts) answers += Number(blockList.check(text, `ipv${family}`))
  }
  const ratios = Array.from({ length: 21 }, () => milliseconds(theirs) / milliseconds(ours))
  console.log(`IPv${family}, 1000 rules, from text: ${summary(ratios, 1)} times as fast as net.BlockList`)
}
console.log(`(${answers} is printed so that the work cannot be optimized away)`)
