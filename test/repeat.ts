// Runs the tests again and again, and prints which of them failed how often: a test that fails once in ten runs is a
// defect. The last round is pinned to one core, where races look different.
//   npm run test:repeat -- 5                 five rounds, and one on one core
//   npm run test:repeat -- 50 key_life       only files whose path contains the word
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'

const [times = '5', ...words] = process.argv.slice(2)
const rounds = Number(times)
if (!Number.isInteger(rounds) || rounds < 1) {
  console.error('npm run test:repeat -- <times> [words in the paths of test files]')
  process.exit(2)
}

type Failure = { name: string; rounds: string[] }
const failures = new Map<string, Failure>()
const summary: string[] = []

async function runOnce(label: string, prefix: readonly string[]): Promise<void> {
  const began = Date.now()
  const [program = process.execPath, ...args] = [...prefix, process.execPath, 'test/run.ts', ...words]
  const child = spawn(program, args, { cwd: new URL('..', import.meta.url), stdio: ['ignore', 'pipe', 'pipe'] })
  child.stderr.resume()
  const failed = new Set<string>()
  let place = ''
  let counted = ''
  let last: string[] = []
  for await (const line of createInterface({ input: child.stdout })) {
    last = [...last.slice(-19), line]
    place = /^test at (\S+?):\d+:\d+$/.exec(line)?.[1] ?? place
    // The list at the end names each failing test with its file.
    const name = /^✖ (.*) \([\d.]+ms\)$/.exec(line)?.[1]
    if (name && place) failed.add(`${place}: ${name}`)
    counted = /^ℹ tests (\d+)$/.exec(line)?.[1] ?? counted
  }
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
  if (child.exitCode !== 0 && failed.size === 0) failed.add(`the run itself: ${last.join(' | ')}`)
  for (const name of failed) {
    const failure = failures.get(name) ?? { name, rounds: [] }
    failure.rounds.push(label)
    failures.set(name, failure)
  }
  const line = `round ${label}: ${counted || 'no'} tests, ${failed.size} failed, ${((Date.now() - began) / 1_000).toFixed(0)} s`
  summary.push(line)
  console.log([line, ...[...failed].map((name) => `  ${name}`)].join('\n'))
}

for (let round = 1; round <= rounds; round++) await runOnce(`${round}`, [])
await runOnce('on one core', ['taskset', '-c', '0'])

console.log(`\n${summary.join('\n')}\n`)
if (failures.size === 0) console.log(`no failure in ${summary.length} rounds`)
for (const { name, rounds: where } of failures.values())
  console.log(`${where.length} × ${name} (round ${where.join(', ')})`)
process.exit(failures.size === 0 ? 0 : 1)
