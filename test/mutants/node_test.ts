// Stands in for node:test while mutants are tried: it keeps the tests of a file instead of running them, so that one process
// can run any of them again with each mutant.
type Body = (context: Context) => unknown
type Context = {
  name: string
  signal: AbortSignal
  after: (cleanUp: () => unknown) => void
  test: (name: string, ...rest: unknown[]) => Promise<void>
  diagnostic: () => void
  skip: () => void
}
type File = { name: string; before: (() => unknown)[]; beforeEach: (() => unknown)[]; afterEach: (() => unknown)[] }
export type KeptTest = { id: string; fileName: string; run: () => Promise<void> }

export const keptTests: KeptTest[] = []
let file: File = { name: '', before: [], beforeEach: [], afterEach: [] }

/** The tests of this file come next. */
export function beginFile(name: string): void {
  file = { name, before: [], beforeEach: [], afterEach: [] }
}

export const before = (hook: () => unknown) => void file.before.push(hook)
export const beforeEach = (hook: () => unknown) => void file.beforeEach.push(hook)
export const afterEach = (hook: () => unknown) => void file.afterEach.push(hook)
/** The tests of a file are run again until the process ends, which cleans up. */
export const after = (): void => {}

export function test(name: string, ...rest: unknown[]): Promise<void> {
  const [body, options] = bodyIn(rest)
  const owner = file
  if (body && !options.skip) keptTests.push({ id: `${owner.name}: ${name}`, fileName: owner.name, run })
  return Promise.resolve()

  async function run(): Promise<void> {
    for (const hook of owner.before.splice(0)) await hook()
    for (const hook of owner.beforeEach) await hook()
    try {
      await runBody(name, body as Body)
    } finally {
      for (const hook of owner.afterEach) await hook()
    }
  }
}

export const it = test
export function describe(_name: string, body: () => void): void {
  body()
}

function bodyIn(rest: unknown[]): [Body | undefined, { skip?: unknown }] {
  const body = rest.find((each) => typeof each === 'function') as Body | undefined
  const options = rest.find((each) => typeof each === 'object') as { skip?: unknown } | undefined
  return [body, options ?? {}]
}

async function runBody(name: string, body: Body): Promise<void> {
  const cleanUps: (() => unknown)[] = []
  const aborter = new AbortController()
  try {
    await body({
      name,
      signal: aborter.signal,
      after: (cleanUp) => void cleanUps.push(cleanUp),
      test: (inner, ...rest) => runBody(inner, bodyIn(rest)[0] as Body),
      diagnostic: () => {},
      skip: () => {},
    })
  } finally {
    aborter.abort()
    for (const cleanUp of cleanUps) await cleanUp()
  }
}
