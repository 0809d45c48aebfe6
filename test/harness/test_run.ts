/** What `node test/run.ts` gives to every test file. */
function required(name: string): string {
  const value = process.env[name]
  if (!value) throw new Error(`${name} is not set: run tests with 'npm test', or 'npm test -- <file>' for one`)
  return value
}

export const testRun = {
  /** A PostgreSQL server of this run, with a migrated database named `template`. */
  postgresUrl: required('GATEHOUSE_TEST_POSTGRES_URL'),
  /** Logs and issued tokens go here, and are searched when all tests have ended. */
  folder: required('GATEHOUSE_TEST_FOLDER'),
}
