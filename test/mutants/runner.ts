// A test runner for Stryker. Tests and the program that they test stay loaded in one process, and a mutant is switched on for
// as long as the tests that cover it run: milliseconds for each, where a process for each takes a second.
import { readFileSync, writeFileSync } from 'node:fs'
import { registerHooks } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { MutantCoverage, StrykerOptions } from '@stryker-mutator/api/core'
import { commonTokens, declareClassPlugin, PluginKind, tokens } from '@stryker-mutator/api/plugin'
import {
  type CompleteDryRunResult,
  DryRunStatus,
  determineHitLimitReached,
  type MutantRunOptions,
  type MutantRunResult,
  type TestResult,
  type TestRunner,
  TestStatus,
  toMutantRunResult,
} from '@stryker-mutator/api/test-runner'
import type { KeptTest } from './node_test.ts'

/** What Stryker's changed sources read and write. */
type Switches = {
  activeMutant?: string | undefined
  currentTestId?: string | undefined
  mutantCoverage?: MutantCoverage
  hitCount?: number | undefined
  hitLimit?: number | undefined
}
const scope = globalThis as { __stryker__?: Switches }
scope.__stryker__ ??= {}
const switches = scope.__stryker__

/** Processor time. A test that needs more makes random cases, of which a few show most. */
const maxMs = 1_500
/** A test that needs another process, or its end, would wait forever. */
const longestMs = 60_000
/** For a mutant in code that runs while a module is loaded: any test might notice it. */
const maxMsOfAny = 150

/** In the working directory, which is Stryker's copy of the sources. */
const repeatableFile = 'repeatable_tests.json'

class RepeatingTestRunner implements TestRunner {
  static inject = tokens(commonTokens.options)
  readonly #testFiles: string[]
  #loading: Promise<KeptTest[]> | undefined
  /** A failed test left something behind: its next run failed without a mutant too. */
  #isDamaged = false
  #strayError: unknown

  constructor(options: StrykerOptions) {
    this.#testFiles = (options as unknown as { repeatedFiles: string[] }).repeatedFiles
    const note = (error: unknown): void => {
      this.#strayError ??= error
    }
    process.on('uncaughtException', note)
    process.on('unhandledRejection', note)
  }

  /** Stryker starts another process for what runs only while a module is loaded. */
  capabilities() {
    return { reloadEnvironment: false }
  }

  async dryRun(): Promise<CompleteDryRunResult> {
    switches.mutantCoverage = { static: {}, perTest: {} }
    const kept = await this.#tests()
    const results: TestResult[] = []
    for (const test of kept) results.push(await this.#run(test))
    const mutantCoverage = structuredClone(switches.mutantCoverage)
    // A test that cannot be repeated would notice every mutant, and a slow one would run for each that nothing notices.
    const repeatable = new Map<string, number>()
    for (const [index, test] of kept.entries())
      if (Number(results[index]?.timeSpentMs) > maxMs) console.log(`too slow: ${test.id}`)
      else if (results[index]?.status === TestStatus.Success) {
        const again = await this.#run(test)
        if (again.status === TestStatus.Success) repeatable.set(test.id, again.timeSpentMs)
        else console.log(`not repeatable: ${test.id}: ${again.status === TestStatus.Failed && again.failureMessage}`)
      } else console.log(`failed: ${test.id}: ${JSON.stringify(results[index])}`)
    writeFileSync(repeatableFile, JSON.stringify([...repeatable]))
    forgetLoading(mutantCoverage, [...repeatable.keys()])
    return { status: DryRunStatus.Complete, tests: results.filter(({ id }) => repeatable.has(id)), mutantCoverage }
  }

  async mutantRun(options: MutantRunOptions): Promise<MutantRunResult> {
    // Stryker then starts another process, and tries again.
    if (this.#isDamaged) process.exit(1)
    if (options.mutantActivation === 'static') switches.activeMutant = options.activeMutant.id
    const milliseconds = new Map<string, number>(JSON.parse(readFileSync(repeatableFile, 'utf8')))
    let kept: KeptTest[]
    try {
      kept = await this.#tests()
    } catch (error) {
      return { status: 'killed', killedBy: ['loading'], failureMessage: String(error), nrOfTests: 0 } as MutantRunResult
    }
    const isChosen = ({ id }: KeptTest): boolean =>
      options.testFilter ? options.testFilter.includes(id) : Number(milliseconds.get(id)) <= maxMsOfAny
    const chosen = kept
      .filter((test) => milliseconds.has(test.id) && isChosen(test))
      .sort((a, b) => Number(milliseconds.get(a.id)) - Number(milliseconds.get(b.id)))
    switches.activeMutant = options.activeMutant.id
    switches.hitCount = options.hitLimit === undefined ? undefined : 0
    switches.hitLimit = options.hitLimit
    const results: TestResult[] = []
    for (const test of chosen) {
      const result = await this.#run(test)
      results.push(result)
      const looped = determineHitLimitReached(switches.hitCount, switches.hitLimit)
      if (looped) {
        await this.#restore(test)
        return toMutantRunResult(looped)
      }
      if (result.status !== TestStatus.Failed) continue
      await this.#restore(test)
      break
    }
    switches.activeMutant = undefined
    return toMutantRunResult({ status: DryRunStatus.Complete, tests: results })
  }

  async #restore(test: KeptTest): Promise<void> {
    switches.activeMutant = undefined
    switches.hitLimit = undefined
    const { status } = await this.#run(test)
    this.#isDamaged = status !== TestStatus.Success
  }

  #tests(): Promise<KeptTest[]> {
    this.#loading ??= load(this.#testFiles)
    return this.#loading
  }

  async #run({ id, fileName, run }: KeptTest): Promise<TestResult> {
    // It stays afterwards: what a server does between two tests is not what happens while modules are loaded.
    switches.currentTestId = id
    this.#strayError = undefined
    const began = process.cpuUsage()
    const result = { id, name: id, fileName }
    const timeSpentMs = () => Math.round(process.cpuUsage(began).user / 1_000)
    try {
      await Promise.race([run(), failAfter(longestMs)])
      if (this.#strayError !== undefined) throw this.#strayError
      return { ...result, status: TestStatus.Success, timeSpentMs: timeSpentMs() }
    } catch (error) {
      const failureMessage = String((error as Error | undefined)?.message ?? error)
      return { ...result, status: TestStatus.Failed, failureMessage, timeSpentMs: timeSpentMs() }
    }
  }
}

/**
 * Code that runs both while modules are loaded and in tests is tried in the tests: each mutant of what only runs while they are
 * loaded takes a process of its own, and all tests.
 */
function forgetLoading({ static: whileLoading, perTest }: MutantCoverage, tests: readonly string[]): void {
  for (const test of tests) for (const mutant of Object.keys(perTest[test] ?? {})) delete whileLoading[mutant]
}

const failAfter = (ms: number): Promise<never> =>
  new Promise((_, reject) => {
    AbortSignal.timeout(ms).addEventListener('abort', () => reject(new Error(`has not ended after ${ms} ms`)))
  })

async function load(testFiles: readonly string[]): Promise<KeptTest[]> {
  const here = (file: string) => pathToFileURL(join(process.cwd(), file)).href
  const standIns = new Map([['node:test', here('test/mutants/node_test.ts')]])
  registerHooks({
    resolve(specifier, context, next) {
      const url = standIns.get(specifier)
      if (url) return { url, shortCircuit: true, format: 'module-typescript' }
      if (specifier.endsWith('/harness/thorough.ts'))
        return { url: here('test/mutants/small_sizes.ts'), shortCircuit: true, format: 'module-typescript' }
      if (specifier === 'node:child_process' && context.parentURL === here('test/harness/control_plane.ts'))
        return { url: here('test/mutants/serve_here.ts'), shortCircuit: true, format: 'module-typescript' }
      return next(specifier, context)
    },
  })
  const { keptTests, beginFile }: typeof import('./node_test.ts') = await import(here('test/mutants/node_test.ts'))
  if (testFiles.some((file) => readFileSync(file, 'utf8').includes('sharedControlPlane'))) {
    const { startSharedControlPlane } = await import(here('test/harness/shared_control_plane.ts'))
    await startSharedControlPlane()
  }
  for (const file of testFiles) {
    beginFile(file)
    await import(here(file))
  }
  return keptTests
}

export const strykerPlugins = [declareClassPlugin(PluginKind.TestRunner, 'repeating', RepeatingTestRunner)]
