// `npm run bench -- api|write|list [--rounds 9] [--seconds 2] [--json]`: what the API costs beside bare servers that
// run the same statements. Needs wrk. docs/performance.md explains the figures.
import { parseArgs } from 'node:util'
import { benches } from './benches.ts'
import { type Outcome, print } from './harness/side_by_side.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: 'string', default: '9' },
    seconds: { type: 'string', default: '2' },
    connections: { type: 'string', default: '16' },
    json: { type: 'boolean', default: false },
  },
})
const wanted = positionals.length ? positionals : Object.keys(benches)
const options = {
  rounds: Number(values.rounds),
  seconds: Number(values.seconds),
  connections: Number(values.connections),
}
const outcomes: Record<string, Outcome> = {}
for (const name of wanted) {
  const bench = benches[name]
  if (!bench) throw new Error(`there is no bench '${name}', only ${Object.keys(benches).join(', ')}`)
  const outcome = await bench.run(options)
  outcomes[name] = outcome
  if (!values.json) print(`${bench.title}; ${options.rounds} rounds of ${options.seconds} s`, outcome)
}
if (values.json) console.log(JSON.stringify(outcomes, null, 2))
// The package that starts PostgreSQL keeps the process alive otherwise.
process.exit(0)
