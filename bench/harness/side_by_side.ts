// Measures programs beside each other: short alternating rounds, so that other work of the machine affects all
// of them. What counts is the ratio of two contenders in the same round, by rate and by the processor time of a request.
import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { type Spread, shown, spreadOf } from './statistics.ts'

const run = promisify(execFile)

export type Contender = {
  readonly name: string
  /** The process whose processor time counts. */
  readonly pid: number
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  /** Sent with a POST. */
  readonly body?: string
}
type Slice = { rate: number; microseconds: number }
export type Goal = { of: string; to: string; rate?: number; processor?: number }
export type Compared = { of: string; to: string; rate: Spread; processor: Spread; goal?: Goal }
export type Outcome = {
  contenders: { name: string; rate: Spread; microseconds: Spread }[]
  ratios: Compared[]
}

/** Until V8 has compiled what runs often: a server runs for weeks. */
const warmUpSeconds = 8

type Options = { rounds: number; seconds: number; connections: number }

export async function measureBesideEachOther(
  contenders: readonly Contender[],
  pairs: readonly Goal[],
  { rounds, seconds, connections }: Options,
): Promise<Outcome> {
  const slices = new Map(contenders.map(({ name }) => [name, [] as Slice[]]))
  for (const contender of contenders) await measure(contender, warmUpSeconds, connections)
  for (let round = 0; round < rounds; round++) {
    // None is always first.
    const order = contenders.map((_, index) => contenders[(index + round) % contenders.length] as Contender)
    for (const contender of order) slices.get(contender.name)?.push(await measure(contender, seconds, connections))
  }
  const of = (name: string): Slice[] => slices.get(name) ?? []
  return {
    contenders: contenders.map(({ name }) => ({
      name,
      rate: spreadOf(of(name).map(({ rate }) => rate)),
      microseconds: spreadOf(of(name).map(({ microseconds }) => microseconds)),
    })),
    ratios: pairs.map((goal) => {
      const reference = of(goal.to)
      return {
        of: goal.of,
        to: goal.to,
        rate: spreadOf(of(goal.of).map(({ rate }, round) => rate / (reference[round]?.rate ?? 0))),
        processor: spreadOf(
          of(goal.of).map(({ microseconds }, round) => (reference[round]?.microseconds ?? 0) / microseconds),
        ),
        goal,
      }
    }),
  }
}

async function measure({ name, pid, url, headers, body }: Contender, seconds: number, connections: number) {
  const before = await processorMicroseconds(pid)
  const { stdout } = await run('wrk', [
    ...['-t', '1', '-c', `${connections}`, '-d', `${seconds}s`],
    ...Object.entries(headers).flatMap(([header, value]) => ['-H', `${header}: ${value}`]),
    ...(body === undefined ? [] : ['-s', new URL('post.lua', import.meta.url).pathname]),
    url,
    ...(body === undefined ? [] : ['--', body]),
  ])
  const spent = (await processorMicroseconds(pid)) - before
  if (/Non-2xx/.test(stdout)) throw new Error(`${name}: not every answer was a success\n${stdout}`)
  const requests = Number(/(\d+) requests in/.exec(stdout)?.[1])
  return { rate: Number(/Requests\/sec:\s+([\d.]+)/.exec(stdout)?.[1]), microseconds: spent / requests }
}

/** Linux counts in hundredths of a second. */
export async function processorMicroseconds(pid: number): Promise<number> {
  const fields = (await readFile(`/proc/${pid}/stat`, 'utf8')).split(') ')[1]?.split(' ') ?? []
  return (Number(fields[11]) + Number(fields[12])) * 10_000
}

export function print(title: string, { contenders, ratios }: Outcome): void {
  console.log(`\n${title}: median (quartiles)`)
  for (const { name, rate, microseconds } of contenders)
    console.log(`  ${name.padEnd(44)} ${shown(rate, 0)} requests/s, ${shown(microseconds, 0)} µs each`)
  for (const { of, to, rate, processor, goal } of ratios) {
    const goals = [goal?.processor && `≥ ${goal.processor}`, goal?.rate && `rate ≥ ${goal.rate}`].filter(Boolean)
    console.log(
      `  ${of}, of ${to}: ${shown(processor)} by processor time, ${shown(rate)} by rate${goals.length ? `; goal ${goals.join(', ')}` : ''}`,
    )
  }
}
