// Runs the tests again and again, and prints which of them failed how often: a test that fails once in ten runs is a
// defect. The last round is pinned to one core, where races look different.
//   npm run test:repeat -- 5                 five rounds, and one on one core
//   npm run test:repeat -- 50 key_life       only files whose path contains the word
import { spawn } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { finished } from 'node:stream/promises'

const [times = '5', ...words] = process.argv.slice(2)
const rounds = Number(times)
if (!Number.isInteger(rounds) || rounds < 1) {
  console.error('npm run test:repeat -- <times> [words in the paths of test files]')
  process.exit(2)
}

/** How to see it again: the random choices of the round, and all that was printed, ports and processes included. */
type Occurrence = { round: string; file: string; seed: string; output: string; error: string[] }
const failures = new Map<string, Occurrence[]>()
const summary: string[] = []
const folder = await mkdtemp(join(tmpdir(), 'gatehouse-repeat-'))

async function runOnce(round: string, prefix: readonly string[]): Promise<void> {
  const began = Date.now()
  const seed = String(randomInt(2 ** 32))
  const output = join(folder, `round ${round}.txt`.replaceAll(' ', '_'))
  const [program = process.execPath, ...args] = [...prefix, process.execPath, 'test/run.ts', ...words]
  const child = spawn(program, args, {
    cwd: new URL('..', import.meta.url),
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, GATEHOUSE_TEST_SEED: seed },
  })
  const file = createWriteStream(output)
  child.stderr.pipe(file, { end: false })
  const failed = new Map<string, Occurrence>()
  let place = ''
  let current: Occurrence | undefined
  let counted = ''
  for await (const line of createInterface({ input: child.stdout })) {
    file.write(`${line}\n`)
    const next = /^test at (\S+?):\d+:\d+$/.exec(line)?.[1]
    if (next) [place, current] = [next, undefined]
    // The list at the end names each failing test with its file, and then says why.
    const name = /^✖ (.*) \([\d.]+ms\)$/.exec(line)?.[1]
    if (name && place) {
      current = { round, file: place, seed, output, error: [] }
      failed.set(`${place}: ${name}`, current)
    } else if (current && current.error.length < 12 && line.trim()) current.error.push(line)
    counted = /^ℹ tests (\d+)$/.exec(line)?.[1] ?? counted
  }
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
  await finished(file.end())
  if (child.exitCode !== 0 && failed.size === 0)
    failed.set('the run itself', { round, file: words.join(' '), seed, output, error: ['see the end of its output'] })
  for (const [name, occurrence] of failed) failures.set(name, [...(failures.get(name) ?? []), occurrence])
  if (failed.size === 0) await rm(output)
  const [load = 0] = loadavg()
  const line = `round ${round}: ${counted || 'no'} tests, ${failed.size} failed, ${((Date.now() - began) / 1_000).toFixed(0)} s, load average ${load.toFixed(1)}`
  summary.push(line)
  console.log([line, ...[...failed.keys()].map((name) => `  ${name}`)].join('\n'))
}

for (let round = 1; round <= rounds; round++) await runOnce(`${round}`, [])
await runOnce('on one core', ['taskset', '-c', '0'])

console.log(`\n${summary.join('\n')}\n`)
if (failures.size === 0) {
  console.log(`no failure in ${summary.length} rounds`)
  await rm(folder, { recursive: true })
}
for (const [name, occurrences] of failures) {
  console.log(`${occurrences.length} of ${summary.length} × ${name}`)
  for (const { round, file, seed, output, error } of occurrences)
    console.log(
      [
        `  round ${round}: GATEHOUSE_TEST_SEED=${seed} npm test -- ${file}   (all it printed: ${output})`,
        ...error.map((line) => `    ${line}`),
      ].join('\n'),
    )
}
process.exit(failures.size === 0 ? 0 : 1)
