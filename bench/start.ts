// What a start costs: of `gatehouse serve` until it listens, from the sources and from the bundle that `npm run build` and the
// tests make, and of a short command and of `gatehouse mcp` of the bundle until they end, beside Node with nothing to do.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import { ensureTestProgram } from '../dev/bundle.ts'
import { processorMicroseconds } from './harness/side_by_side.ts'
import { type Spread, shown, spreadOf } from './harness/statistics.ts'
import { createWorld, type World } from './harness/world.ts'

type Start = { milliseconds: number; processor: number; megabytes?: number }
type Contender = { name: string; start: () => Promise<Start> }
type Ratio = { of: string; to: string; milliseconds: Spread; processor: Spread }
export type StartOutcome = {
  contenders: { name: string; milliseconds: Spread; processor: Spread; megabytes?: Spread }[]
  ratios: Ratio[]
}

const pairs = [
  ['serve, bundle', 'serve, sources'],
  ['serve, bundle again', 'serve, bundle'],
  ['api-keys list', 'node -e 0'],
  ['api-keys list again', 'api-keys list'],
  ['mcp', 'api-keys list'],
] as const

export async function measureStarts(rounds: number): Promise<StartOutcome> {
  const world = await createWorld({ keys: 1 })
  try {
    const contenders = await contendersIn(world)
    const starts = new Map(contenders.map(({ name }) => [name, [] as Start[]]))
    for (let round = 0; round < rounds; round++)
      for (const [index] of contenders.entries()) {
        // None is always first.
        const { name, start } = contenders[(index + round) % contenders.length] as Contender
        starts.get(name)?.push(await start())
      }
    return compare(starts)
  } finally {
    await world.end()
  }
}

async function contendersIn(world: World): Promise<Contender[]> {
  const bundle = await ensureTestProgram()
  const sources = new URL('../src/main.ts', import.meta.url).pathname
  const { origin } = await world.gatehouse()
  const client = { GATEHOUSE_URL: origin, GATEHOUSE_API_KEY: world.token }
  const serve = (program: string) => () => startServe(program, world.databaseUrl)
  const list = () => runCommand([bundle, 'api-keys', 'list'], client)
  return [
    { name: 'serve, sources', start: serve(sources) },
    { name: 'serve, bundle', start: serve(bundle) },
    { name: 'serve, bundle again', start: serve(bundle) },
    { name: 'node -e 0', start: () => runCommand(['-e', '0'], {}) },
    { name: 'api-keys list', start: list },
    { name: 'api-keys list again', start: list },
    { name: 'mcp', start: () => runCommand([bundle, 'mcp'], client) },
  ]
}

async function startServe(program: string, databaseUrl: string): Promise<Start> {
  const began = performance.now()
  const child = spawn(process.execPath, [program, 'serve'], {
    env: { ...process.env, GATEHOUSE_DATABASE_URL: databaseUrl, GATEHOUSE_LISTEN: '127.0.0.1:0' },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = once(child, 'exit')
  for await (const line of createInterface({ input: child.stdout })) if (line.includes('"listening"')) break
  const milliseconds = performance.now() - began
  const pid = child.pid ?? 0
  const memory = /VmRSS:\s+(\d+)/.exec(await readFile(`/proc/${pid}/status`, 'utf8'))?.[1]
  const processor = (await processorMicroseconds(pid)) / 1_000
  child.kill()
  await ended
  return { milliseconds, processor, megabytes: Number(memory) / 1_024 }
}

/** Linux counts in hundredths of a second, so a few together. */
const commandsAtOnce = 5

async function runCommand(args: readonly string[], env: Record<string, string>): Promise<Start> {
  const before = await processorOfEndedChildren()
  const began = performance.now()
  for (let time = 0; time < commandsAtOnce; time++) {
    const child = spawn(process.execPath, args, { env: { ...process.env, ...env }, stdio: 'ignore' })
    const [code] = await once(child, 'exit')
    if (code !== 0) throw new Error(`${args.join(' ')} ended with ${code}`)
  }
  const milliseconds = (performance.now() - began) / commandsAtOnce
  return { milliseconds, processor: ((await processorOfEndedChildren()) - before) / commandsAtOnce }
}

async function processorOfEndedChildren(): Promise<number> {
  const fields = (await readFile('/proc/self/stat', 'utf8')).split(') ')[1]?.split(' ') ?? []
  return (Number(fields[13]) + Number(fields[14])) * 10
}

function compare(starts: ReadonlyMap<string, readonly Start[]>): StartOutcome {
  const of = (name: string, field: keyof Start) => (starts.get(name) ?? []).flatMap((each) => each[field] ?? [])
  const ratio = (a: string, b: string, field: 'milliseconds' | 'processor') => {
    const reference = of(b, field)
    return spreadOf(of(a, field).map((value, round) => value / (reference[round] ?? Number.NaN)))
  }
  return {
    contenders: [...starts.keys()].map((name) => ({
      name,
      milliseconds: spreadOf(of(name, 'milliseconds')),
      processor: spreadOf(of(name, 'processor')),
      ...(of(name, 'megabytes').length && { megabytes: spreadOf(of(name, 'megabytes')) }),
    })),
    ratios: pairs.map(([a, b]) => ({
      of: a,
      to: b,
      milliseconds: ratio(a, b, 'milliseconds'),
      processor: ratio(a, b, 'processor'),
    })),
  }
}

export function printStarts({ contenders, ratios }: StartOutcome): void {
  console.log('\nA start, until it listens or has ended: median (quartiles)')
  for (const { name, milliseconds, processor, megabytes } of contenders)
    console.log(
      `  ${name.padEnd(24)} ${shown(milliseconds, 0)} ms, ${shown(processor, 0)} ms of processor time${megabytes ? `, ${shown(megabytes, 0)} MB` : ''}`,
    )
  for (const { of, to, milliseconds, processor } of ratios)
    console.log(`  ${of}, of ${to}: ${shown(processor)} by processor time, ${shown(milliseconds)} by time`)
}
