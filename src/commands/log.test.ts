import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
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

test('a reader that stops does not stop the process, and the lines that it misses are counted', async () => {
  const lines = 40_000
  const script = `
    import { createLog, lostLogLines } from '${log}'
    const log = createLog('info')
    let written = 0
    const writing = setInterval(() => {
      for (let n = 0; n < 1_000; n++) log.info({ padding: 'x'.repeat(300) }, 'a line')
      written += 1_000
      if (written < ${lines}) return
      clearInterval(writing)
      process.stderr.write('all written')
      process.once('message', () => {
        log.info({ counted: lostLogLines() }, 'after the pause')
        process.disconnect()
      })
    }, 11)`
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  })
  const { stdout, stderr } = child
  assert.ok(stdout && stderr)
  assert.equal(String((await once(stderr, 'data'))[0]), 'all written')
  const read: { msg: string; lost?: number; counted?: number }[] = []
  const reading = createInterface({ input: stdout }).on('line', (line) => {
    read.push(JSON.parse(line))
    if (read.at(-1)?.lost) child.send('read')
  })
  await once(reading, 'close')
  const [{ lost = 0 } = {}, ...more] = read.filter(({ lost }) => lost)
  assert.deepEqual(more, [])
  assert.ok(lost > 0)
  assert.equal(read.filter(({ msg }) => msg === 'a line').length + lost, lines)
  assert.equal(read.at(-1)?.counted, lost)
})

test('a reader that is gone, and a device that takes nothing, do not end the process', () => {
  const script = `
    import { createLog, lostLogLines } from '${log}'
    const log = createLog('info')
    const writing = setInterval(() => {
      log.info('a line')
      if (lostLogLines() < 2) return
      clearInterval(writing)
      process.stderr.write('lives on')
    }, 20)`
  for (const output of ['> /dev/full', '| true']) {
    const { stderr } = spawnSync(
      'bash',
      ['-c', `"$0" --input-type=module -e "$1" ${output}`, process.execPath, script],
      {
        encoding: 'utf8',
      },
    )
    assert.equal(stderr, 'lives on', output)
  }
})
