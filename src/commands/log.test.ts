import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'

const log = new URL('log.ts', import.meta.url).href

for (const [what, end] of Object.entries({
  'throws an uncaught error': "throw new Error('broken')",
  exits: 'process.exit(3)',
  'runs to its end': '',
})) {
  test(`a process that ${what} has written its log first`, () => {
    const script = `import { createLog } from '${log}'; createLog('info').info('last words'); ${end}`
    const { stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' })
    assert.equal(JSON.parse(stdout).msg, 'last words')
  })
}
