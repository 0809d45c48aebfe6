// `npm run bench -- api|write|list [--rounds 9] [--seconds 2] [--json]`: what the API costs beside bare servers that
// run the same statements. Needs wrk. `npm run bench -- rules [--rounds 12] [--ranges 1000000] [--parts replace,one,edge]`:
// what rule sets of full size cost. `npm run bench -- start`: what a start of `serve` and of a command costs. `npm run bench --
// edge`: bench/edge_proxy.ts. `npm run bench -- growth [--rows 1000000] [--only impact]`: lists and reports of an account with
// many rows beside one with few. `npm run bench -- --gate [--margin 0.1]`: `api`, `write`, `list`, `start` and `edge` in few rounds,
// which fails when a ratio is twice worse than bench/recorded.json, beyond the spread and the margin. `npm run bench -- --list` names them all. docs/contribute/performance.md explains the figures.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { parseArgs } from 'node:util'
import { benches } from './benches.ts'
import { faultsOf, type Ratio, readRecorded } from './gate.ts'
import { type GrowthOutcome, measureGrowth, printGrowth } from './growth/run.ts'
import { type Compared, type Outcome, print } from './harness/side_by_side.ts'
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
    margin: { type: 'string', default: '0.1' },
  },
})
/** The configuration by hand that does the same work. */
const likeOurs = 'HAProxy by hand with a line for each request'
type EdgeOutcome = { ratios: Pick<Compared, 'of' | 'to' | 'processor'>[] }
const names = [...Object.keys(benches), 'start', 'edge', 'rules', 'growth']
if (values.list) {
  console.log(names.join('\n'))
  process.exit(0)
}
const gated = [...Object.keys(benches), 'start', 'edge']
const wanted = positionals.length ? positionals : values.gate ? gated : names
const options = {
  rounds: Number(values.rounds ?? (values.gate ? 5 : 9)),
  seconds: Number(values.seconds),
  connections: Number(values.connections),
}
const outcomes: Record<string, Outcome | RulesOutcome | StartOutcome | GrowthOutcome | EdgeOutcome> = {}
const ratios = await measure()
if (values.json) console.log(JSON.stringify(outcomes, null, 2))
if (values.gate) {
  const recorded = await readRecorded()
  let faults = faultsOf(ratios, recorded, Number(values.margin))
  // Other work on the machine may have disturbed one measurement, but not both in the same way.
  if (faults.length > 0) {
    for (const fault of faults) console.error(`worse than recorded, or unknown; measuring again: ${fault}`)
    faults = faultsOf(await measure(), recorded, Number(values.margin))
  }
  for (const fault of faults) console.error(`worse than recorded, or unknown: ${fault}`)
  process.exit(faults.length === 0 ? 0 : 1)
}
// The package that starts PostgreSQL keeps the process alive otherwise.
process.exit(0)

async function measure(): Promise<Ratio[]> {
  const ratios: Ratio[] = []
  for (const name of wanted) {
    if (name === 'start') {
      const outcome = await measureStarts(options.rounds)
      outcomes[name] = outcome
      ratios.push(...ratiosOf(name, outcome))
      if (!values.json) printStarts(outcome)
    } else if (name === 'edge') {
      const outcome = await measureEdge()
      if (outcome) {
        outcomes[name] = outcome
        ratios.push(...ratiosOf(name, outcome))
      }
    } else if (name === 'rules') {
      const { rounds, ranges, parts } = values
      const outcome = await measureRules({ rounds, ranges, parts })
      outcomes[name] = outcome
      if (!values.json) printRules(outcome)
    } else if (name === 'growth') {
      const outcome = await measureGrowth(Number(values.rounds ?? 31), Number(values.rows ?? 1_000_000), values.only)
      outcomes[name] = outcome
      if (!values.json) printGrowth(outcome)
    } else {
      const bench = benches[name]
      if (!bench) throw new Error(`there is no bench '${name}', only ${names.join(', ')}`)
      const outcome = await bench.run(options)
      outcomes[name] = outcome
      ratios.push(...ratiosOf(name, outcome))
      if (!values.json) print(`${bench.title}; ${options.rounds} rounds of ${options.seconds} s`, outcome)
    }
  }
  return ratios
}

/** A program of its own, which prints its figures as text, to standard error where its standard output is read here. */
async function measureEdge(): Promise<EdgeOutcome | undefined> {
  const isRead = values.json || values.gate
  // The gate does not wait for 100,000 routes: what depends on their number is measured without it.
  const smaller = values.gate && { ROUTES: '2000', SECONDS_PER_ROUND: values.seconds }
  const rounds = (values.rounds ?? values.gate) && { ROUNDS: String(options.rounds) }
  const child = spawn(
    process.execPath,
    [new URL('edge_proxy.ts', import.meta.url).pathname, ...(isRead ? ['--json'] : [])],
    { env: { ...process.env, ...smaller, ...rounds }, stdio: ['ignore', isRead ? 'pipe' : 1, 2] },
  )
  const output = child.stdout ? text(child.stdout) : ''
  const [code] = await once(child, 'exit')
  if (code !== 0) throw new Error(`bench/edge_proxy.ts ended with ${code}`)
  return isRead ? JSON.parse(await output) : undefined
}

/** What the gate looks at: of a start only what a command costs beside Node, and of the edge only like beside like. */
function ratiosOf(bench: string, { ratios }: Pick<Outcome | StartOutcome | EdgeOutcome, 'ratios'>): Ratio[] {
  const isStart = bench === 'start'
  return [...ratios]
    .filter(({ of }) => !isStart || of.startsWith('api-keys list'))
    .filter(({ to }) => bench !== 'edge' || to === likeOurs)
    .map(({ of, to, processor }) => ({ bench, of, to, spread: processor, higherIs: isStart ? 'worse' : 'better' }))
}
