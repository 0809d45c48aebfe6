import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'

const root = new URL('..', import.meta.url).pathname

if (process.env.GATEHOUSE_TEST_MUST_FAIL) {
  test('fails on request', () => assert.fail('as asked'))
} else {
  test('a run with a failed test fails, or all other tests would be worthless', () => {
    const { NODE_TEST_CONTEXT: _, ...environment } = process.env
    const { status, stdout } = spawnSync(process.execPath, ['test/run.ts', 'test/run.test.ts'], {
      cwd: root,
      env: { ...environment, GATEHOUSE_TEST_MUST_FAIL: 'yes' },
      encoding: 'utf8',
    })
    assert.match(stdout, /as asked/)
    assert.equal(status, 1)
  })
}
