// `npm run bench -- api|write|list [--rounds 9] [--seconds 2] [--json]`: what the API costs beside bare servers that
// run the same statements. Needs wrk. `npm run bench -- rules [--rounds 12] [--ranges 1000000] [--parts replace,one,edge]`:
// what rule sets of full size cost. `npm run bench -- start`: what a start of `serve` and of a command costs. `npm run bench --
// edge`: bench/edge_proxy.ts. `npm run bench -- growth [--rows 1000000] [--only impact]`: lists and reports of an account with
// many rows beside one with few. `npm run bench -- --gate`: `api`, `write`, `list` and `start` in few rounds, which fails when a
// ratio is worse than bench/recorded.json beyond the spread. `npm run bench -- --list` names them all. docs/contribute/performance.md explains the figures.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { parseArgs } from 'node:util'
import { benches } from './benches.ts'
import { faultsOf, type Ratio, readRecorded } from './gate.ts'
import { type GrowthOutcome, measureGrowth, printGrowth } from './growth/run.ts'
import { type Outcome, print } from './harness/side_by_side.ts'
import { measureRules, printRules, type RulesOutcome } from './rules/run.ts'
import { measureStarts, printStarts, type StartOutcome } from './start.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: 'string' },
    seconds: { type: 'string', default: '2' },
    connections: { type: 'string', default: '16' },
    ranges: { type: 'string' },
    parts: { type: 'string' },
    rows: { type: 'string' },
    only: { type: 'string' },
    json: { type: 'boolean', default: false },
    list: { type: 'boolean', default: false },
    gate: { type: 'boolean', default: false },
  },
})
const names = [...Object.keys(benches), 'start', 'edge', 'rules', 'growth']
if (values.list) {
  console.log(names.join('\n'))
  process.exit(0)
}
const gated = [...Object.keys(benches), 'start']
const wanted = positionals.length ? positionals : values.gate ? gated : names
const options = {
  rounds: Number(values.rounds ?? (values.gate ? 5 : 9)),
  seconds: Number(values.seconds),
  connections: Number(values.connections),
}
const ratios: Ratio[] = []
const outcomes: Record<string, Outcome | RulesOutcome | StartOutcome | GrowthOutcome> = {}
for (const name of wanted) {
  if (name === 'start') {
    const outcome = await measureStarts(options.rounds)
    outcomes[name] = outcome
    ratios.push(...ratiosOf(name, outcome))
    if (!values.json) printStarts(outcome)
    continue
  }
  if (name === 'edge') {
    // A program of its own, which prints its figures as text: under --json, to standard error.
    const env = { ...process.env, ...(values.rounds && { ROUNDS: values.rounds }) }
    const stdio = ['ignore', values.json ? 2 : 1, 2] as const
    const [code] = await once(
      spawn(process.execPath, [new URL('edge_proxy.ts', import.meta.url).pathname], { env, stdio: [...stdio] }),
      'exit',
    )
    if (code !== 0) throw new Error(`bench/edge_proxy.ts ended with ${code}`)
    continue
  }
  if (name === 'rules') {
    const { rounds, ranges, parts } = values
    const outcome = await measureRules({ rounds, ranges, parts })
    outcomes[name] = outcome
    if (!values.json) printRules(outcome)
    continue
  }
  if (name === 'growth') {
    const outcome = await measureGrowth(Number(values.rounds ?? 31), Number(values.rows ?? 1_000_000), values.only)
    outcomes[name] = outcome
    if (!values.json) printGrowth(outcome)
    continue
  }
  const bench = benches[name]
  if (!bench) throw new Error(`there is no bench '${name}', only ${names.join(', ')}`)
  const outcome = await bench.run(options)
  outcomes[name] = outcome
  ratios.push(...ratiosOf(name, outcome))
  if (!values.json) print(`${bench.title}; ${options.rounds} rounds of ${options.seconds} s`, outcome)
}
if (values.json) console.log(JSON.stringify(outcomes, null, 2))
if (values.gate) {
  const faults = faultsOf(ratios, await readRecorded())
  for (const fault of faults) console.error(`worse than recorded, or unknown: ${fault}`)
  process.exit(faults.length === 0 ? 0 : 1)
}
// The package that starts PostgreSQL keeps the process alive otherwise.
process.exit(0)

/** What the gate looks at: of a start only what a command costs beside Node. */
function ratiosOf(bench: string, { ratios }: Pick<Outcome | StartOutcome, 'ratios'>): Ratio[] {
  const isStart = bench === 'start'
  return [...ratios]
    .filter(({ of }) => !isStart || of.startsWith('api-keys list'))
    .map(({ of, to, processor }) => ({ bench, of, to, spread: processor, higherIs: isStart ? 'worse' : 'better' }))
}
