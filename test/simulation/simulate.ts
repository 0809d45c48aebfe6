import { parseArgs } from 'node:util'
import { live } from './history_of_seed.ts'

// npm run simulate -- --seeds 1000 [--from 1]   lives through so many histories, and stops at the first that goes wrong, or with --all at none
// npm run simulate -- --seed 17                 tells the story of one

const { values } = parseArgs({
  options: {
    seeds: { type: 'string' },
    from: { type: 'string', default: '1' },
    seed: { type: 'string' },
    all: { type: 'boolean' },
  },
})

if (values.seed !== undefined) {
  const { story, violation, events } = await live(Number(values.seed), { isTraced: true })
  console.log(story.join('\n'))
  console.log(`${events} events, ${violation ? 'and something went wrong' : 'and nothing went wrong'}`)
  process.exitCode = violation ? 1 : 0
} else {
  const first = Number(values.from)
  const count = Number(values.seeds ?? 1_000)
  const began = performance.now()
  const seconds = () => ((performance.now() - began) / 1_000).toFixed(1)
  let [lived, events, violations] = [0, 0, 0]
  for (let seed = first; seed < first + count; seed++) {
    const outcome = await live(seed)
    lived++
    events += outcome.events
    if (lived % 5_000 === 0) console.log(`${lived} seeds, ${seconds()} s`)
    if (!outcome.violation) continue
    violations++
    process.exitCode = 1
    console.log(`seed ${seed}: ${outcome.violation}`)
    if (!values.all) break
  }
  console.log(`${lived} seeds, ${events} events, ${violations} violations, ${seconds()} s`)
}
