// What a start of `gatehouse serve` costs, from the sources and from the bundle that `npm run build` and the tests make:
// `node bench/start.ts [rounds]`. Until it listens: the time, and the processor time and memory of the process.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import { ensureTestProgram } from '../dev/bundle.ts'
import { processorMicroseconds } from './harness/side_by_side.ts'
import { shown, spreadOf } from './harness/statistics.ts'
import { createWorld } from './harness/world.ts'

const rounds = Number(process.argv[2] ?? 9)
const programs = { sources: new URL('../src/main.ts', import.meta.url).pathname, bundle: await ensureTestProgram() }
const world = await createWorld({ keys: 1 })
const starts = { sources: [] as Start[], bundle: [] as Start[] }
try {
  // Turn about, so that whatever else the machine does meets both.
  for (let round = 0; round < rounds; round++)
    for (const name of ['sources', 'bundle'] as const) starts[name].push(await start(programs[name]))
} finally {
  await world.end()
}
for (const [name, measured] of Object.entries(starts)) {
  const of = (field: keyof Start) => shown(spreadOf(measured.map((each) => each[field])), 0)
  console.log(`${name}: ${of('milliseconds')} ms, ${of('processor')} ms of processor time, ${of('megabytes')} MB`)
}
process.exit(0)

type Start = { milliseconds: number; processor: number; megabytes: number }

async function start(program: string): Promise<Start> {
  const began = performance.now()
  const child = spawn(process.execPath, [program, 'serve'], {
    env: { ...process.env, GATEHOUSE_DATABASE_URL: world.databaseUrl, GATEHOUSE_LISTEN: '127.0.0.1:0' },
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
