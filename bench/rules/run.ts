import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ensureTestProgram } from '../../dev/bundle.ts'
import { putEnginesOnPath } from '../../dev/engines.ts'
import { runWithEnvironment } from '../../test/harness/environment.ts'
import { shown } from '../harness/statistics.ts'
import type { Measured } from './measures.ts'

export type RulesOutcome = Record<string, Measured[]>

/** In the environment of the tests, for its control planes and edge nodes. */
export async function measureRules(options: Record<string, string | undefined>): Promise<RulesOutcome> {
  putEnginesOnPath()
  process.env.GATEHOUSE_TEST_PROGRAM = await ensureTestProgram()
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-bench-'))
  try {
    const output = join(folder, 'outcome.json')
    const given = Object.entries(options).flatMap(([name, value]) => (value === undefined ? [] : [`--${name}`, value]))
    const code = await runWithEnvironment(['bench/rules/main.ts', ...given, '--output', output])
    if (code !== 0) throw new Error(`the bench of rules ended with ${code}`)
    return JSON.parse(await readFile(output, 'utf8'))
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

const titles: Record<string, string> = {
  replace: 'PUT of 100,000 rules, in a database with 1,000 small accounts',
  one: 'One rule of an attached policy, and what follows',
  edge: 'One rule, until an edge node decides by it',
  tests: 'Ordinary changes, without access tests and with 200',
}

export function printRules(outcome: RulesOutcome): void {
  for (const [part, list] of Object.entries(outcome)) {
    console.log(`\n${titles[part]}: median (quartiles)`)
    for (const { name, milliseconds, most, goal } of list)
      console.log(
        `  ${name.padEnd(52)} ${shown(milliseconds, 1)} ms, most ${most.toFixed(1)}${goal ? `; goal ≤ ${goal}` : ''}`,
      )
  }
}
