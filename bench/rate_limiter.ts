// What a decision about one request costs under each algorithm, and how much memory a flood of owners takes.
//   node --expose-gc bench/rate_limiter.ts
import { createRateLimiter } from '../src/kernel/flow/rate_limiter.ts'

type Take = (owner: string) => boolean
const [requests, periodMs] = [6_000, 60_000]
let now = 0
const clock = () => now

function tokenBucket(): Take {
  const buckets = new Map<string, { tokens: number; at: number }>()
  return (owner) => {
    const bucket = buckets.get(owner)
    if (!bucket) {
      buckets.set(owner, { tokens: requests - 1, at: now })
      return true
    }
    bucket.tokens = Math.min(requests, bucket.tokens + ((now - bucket.at) * requests) / periodMs)
    bucket.at = now
    if (bucket.tokens < 1) return false
    bucket.tokens--
    return true
  }
}

function fixedWindow(): Take {
  const windows = new Map<string, { until: number; count: number }>()
  return (owner) => {
    const window = windows.get(owner)
    if (window && window.until > now) return ++window.count <= requests
    windows.set(owner, { until: now + periodMs, count: 1 })
    return true
  }
}

function slidingLog(): Take {
  const logs = new Map<string, number[]>()
  return (owner) => {
    const log = logs.get(owner) ?? []
    logs.set(owner, log)
    while (log.length > 0 && (log[0] ?? 0) <= now - periodMs) log.shift()
    if (log.length >= requests) return false
    log.push(now)
    return true
  }
}

const limit = { requests, seconds: periodMs / 1_000 }
const gcra = (maxOwners: number) => (): Take => {
  const { take } = createRateLimiter(clock, maxOwners)
  return (owner) => take(owner, limit).allowed
}
const unbounded = 10_000_000
const algorithms: Record<string, () => Take> = {
  'GCRA, as in src/kernel': gcra(unbounded),
  'token bucket': tokenBucket,
  'fixed window': fixedWindow,
  'sliding log': slidingLog,
}

/** In nanoseconds for each decision: the best of five runs, because the others measure the machine's other work. */
function costOf(create: () => Take, owners: number): number {
  const names = Array.from({ length: owners }, (_, index) => `ak_${index}`)
  const runs = Array.from({ length: 5 }, () => {
    const take = create()
    const decisions = 500_000
    const start = process.hrtime.bigint()
    for (let i = 0; i < decisions; i++) {
      if (i % 10 === 0) now++
      take(names[i % owners] ?? '')
    }
    return Number(process.hrtime.bigint() - start) / decisions
  })
  return Math.min(...runs)
}

function memoryOf(create: () => Take, owners: number): number {
  globalThis.gc?.()
  const before = process.memoryUsage().heapUsed
  const take = create()
  for (let i = 0; i < owners; i++) take(`4 ${i * 4_099}`)
  globalThis.gc?.()
  const after = process.memoryUsage().heapUsed
  // Used afterwards, so that it is still there to be measured.
  take('4 1')
  return (after - before) / 1024 / 1024
}

for (const [name, create] of Object.entries(algorithms)) {
  const costs = [1, 1_000, 100_000].map((owners) => `${costOf(create, owners).toFixed(0)} ns`)
  console.log(`${name.padEnd(24)} ${costs.join(', ')} with 1, 1,000 and 100,000 owners`)
}
if (!globalThis.gc) console.log('run with --expose-gc for the memory')
else {
  for (const [name, create] of Object.entries(algorithms))
    console.log(`${name.padEnd(24)} ${memoryOf(create, 1_000_000).toFixed(1)} MiB for a million owners`)
  for (const maxOwners of [20_000, 100_000])
    console.log(
      `GCRA, at most ${maxOwners} owners: ${memoryOf(gcra(maxOwners), 1_000_000).toFixed(1)} MiB after a million`,
    )
}
