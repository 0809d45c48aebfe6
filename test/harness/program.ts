/** What tests start: the bundle that test/run.ts has made of the sources, or the sources themselves. */
export const program = process.env.GATEHOUSE_TEST_PROGRAM ?? new URL('../../src/main.ts', import.meta.url).pathname
