// `npm run drill -- mutants <folder> [file]`: tests notice most of the small changes to the code of a folder.
// Prints the others, and the share that was noticed. `test/mutants/tests_of.ts` says which tests run for which folder.
import { spawnSync } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { drill } from '../harness/drill.ts'
import { importGraph } from '../harness/imports.ts'
import { roomOf, testsOf } from '../mutants/tests_of.ts'

type Mutant = {
  /** `NoCoverage`: none of the tests runs it. */
  status: 'Killed' | 'Timeout' | 'Survived' | 'NoCoverage' | string
  mutatorName: string
  replacement?: string
  location: { start: { line: number; column: number } }
}
type Report = { files: Record<string, { mutants: Mutant[] }> }

const folder = (process.argv[2] ?? 'src/kernel/ip').replace(/\/$/, '')
const only = process.argv[3]
const { wantedPercent, except = [] } = roomOf(folder)
const testFiles = testsOf(folder, await importGraph('{src,test,dev}/**/*.ts'))

const optionsIn = (temporary: string) => ({
  mutate: [only ?? `${folder}/**/*.ts`, '!**/*.test.ts', ...except.map((other) => `!${other}/**`)],
  testRunner: 'repeating',
  repeatedFiles: testFiles,
  plugins: [new URL('../mutants/runner.ts', import.meta.url).pathname],
  ignorePatterns: ['**', '!{src,test,dev,migrations,docs}/**', '!package.json', '!openapi.json'],
  tempDirName: join(temporary, 'sandbox'),
  coverageAnalysis: 'perTest',
  concurrency: 1,
  // On a busy machine a test may take seconds, which is not an endless loop yet.
  timeoutMS: 10_000,
  dryRunTimeoutMinutes: 30,
  reporters: ['progress-append-only', 'json'],
  jsonReporter: { fileName: join(temporary, 'report.json') },
  allowConsoleColors: false,
})

await drill(async ({ after }) => {
  if (testFiles.length === 0) throw new Error(`no test for ${folder}`)
  const temporary = await mkdtemp(join(tmpdir(), 'gatehouse-mutants-'))
  after(() => rm(temporary, { recursive: true, force: true }))
  const [options, config] = [optionsIn(temporary), join(temporary, 'stryker.json')]
  await writeFile(config, JSON.stringify(options))
  const { status } = spawnSync('node_modules/.bin/stryker', ['run', config], { stdio: 'inherit' })
  if (status !== 0) return false
  return print(JSON.parse(await readFile(options.jsonReporter.fileName, 'utf8')))
})

function print({ files }: Report): boolean {
  const counts = new Map<string, number>()
  for (const [file, { mutants }] of Object.entries(files))
    for (const { status, location, mutatorName, replacement = '' } of mutants) {
      counts.set(status, (counts.get(status) ?? 0) + 1)
      const { line, column } = location.start
      if (status === 'Killed' || status === 'Timeout') continue
      console.log(
        `${file}:${line}:${column} ${status} ${mutatorName}: ${replacement.replaceAll(/\s+/g, ' ').slice(0, 100)}`,
      )
    }
  const count = (status: Mutant['status']): number => counts.get(status) ?? 0
  const noticed = count('Killed') + count('Timeout')
  const missed = count('Survived') + count('NoCoverage')
  const percent = (100 * noticed) / (noticed + missed)
  console.log(
    `${folder}: ${noticed} changes noticed of ${noticed + missed} (${percent.toFixed(1)} %), ${count('NoCoverage')} of them in code that these tests do not run; ${JSON.stringify([...counts])}`,
  )
  return percent >= wantedPercent
}
