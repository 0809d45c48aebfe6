// `npm run drill -- mutants <folder>`: tests notice nine of ten small changes to the code of a folder that they run.
// Prints the others. It takes the tests in src that import the folder directly and start no server; each change runs in
// processes of its own.
import { spawnSync } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { drill } from '../harness/drill.ts'
import { importGraph } from '../harness/imports.ts'
import { isFast } from '../harness/near.ts'

type Mutant = {
  /** `NoCoverage`: none of the tests runs it. */
  status: 'Killed' | 'Timeout' | 'Survived' | 'NoCoverage' | string
  mutatorName: string
  replacement?: string
  location: { start: { line: number; column: number } }
}
type Report = { files: Record<string, { mutants: Mutant[] }> }

const folder = (process.argv[2] ?? 'src/kernel/ip').replace(/\/$/, '')
const wantedPercent = 90

const graph = await importGraph('{src,test,dev}/**/*.ts')
const testFiles = [...graph]
  .filter(([file]) => file.startsWith('src/') && file.endsWith('.test.ts') && isFast(file, graph))
  .filter(([, imported]) => imported.some((other) => other.startsWith(`${folder}/`)))
  .map(([file]) => file)

const optionsIn = (temporary: string) => ({
  mutate: [`${folder}/**/*.ts`, '!**/*.test.ts'],
  testRunner: 'tap',
  tap: {
    testFiles,
    nodeArgs: [
      '--test-reporter=tap',
      '--import=./test/harness/bundled_packages.ts',
      ...['-r', '{{hookFile}}', '{{testFile}}'],
    ],
  },
  plugins: ['@stryker-mutator/tap-runner'],
  ignorePatterns: ['**', '!{src,test,dev,migrations}/**', '!package.json', '!openapi.json'],
  tempDirName: join(temporary, 'sandbox'),
  coverageAnalysis: 'perTest',
  concurrency: 1,
  // On a busy machine a process may take seconds, which is not an endless loop yet.
  timeoutMS: 20_000,
  reporters: ['progress-append-only', 'json'],
  jsonReporter: { fileName: join(temporary, 'report.json') },
  allowConsoleColors: false,
})

await drill(async ({ after }) => {
  if (testFiles.length === 0) throw new Error(`no test without a server imports ${folder}`)
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
      if (status === 'Survived')
        console.log(`${file}:${line}:${column} ${mutatorName}: ${replacement.replaceAll(/\s+/g, ' ').slice(0, 100)}`)
    }
  const count = (status: Mutant['status']): number => counts.get(status) ?? 0
  const noticed = count('Killed') + count('Timeout')
  const percent = (100 * noticed) / (noticed + count('Survived'))
  console.log(
    `${folder}: ${noticed} changes noticed and ${count('Survived')} not (${percent.toFixed(1)} %), ${count('NoCoverage')} in code that these tests do not run`,
  )
  return percent >= wantedPercent
}
