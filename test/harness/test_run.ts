/** What `node test/run.ts` gives to every test file. */
function required(name: string): string {
  const value = process.env[name]
  if (!value) throw new Error(`${name} is not set: run tests with 'npm test', or 'npm test -- <file>' for one`)
  return value
}

export const testRun = {
  postgresUrl: required('GATEHOUSE_TEST_POSTGRES_URL'),
  /** With which the names of all databases of this run begin. That of the migrated one ends with `template`. */
  databasePrefix: required('GATEHOUSE_TEST_DATABASE_PREFIX'),
  /** Logs and issued tokens go here, and are searched when all tests have ended. */
  folder: required('GATEHOUSE_TEST_FOLDER'),
}
