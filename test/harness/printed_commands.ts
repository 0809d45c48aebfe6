import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import type { TestContext } from 'node:test'
import { loadScaledTimeout } from './load_scaled_timeout.ts'

const root = new URL('../..', import.meta.url).pathname
const tools = ['curl', 'haproxy', 'nats-server', 'openssl']

/**
 * Types every block in `sh` of a page into one terminal, as printed, beside `npm run dev -- --edge`: what a block defines,
 * those after it can use. Resolves to what each of them printed, and to what all of them said beside it; undefined, with
 * the test skipped, where a tool is not installed.
 */
export async function typePage(t: TestContext, page: string, blocks: number, shellFlags: string) {
  const missing = tools.filter((tool) => spawnSync('sh', ['-c', `command -v ${tool}`]).status !== 0)
  if (missing.length) {
    t.skip(`not installed: ${missing.join(', ')}`)
    return undefined
  }
  const text = await readFile(root + page, 'utf8')
  const blocksOfPage = [...text.matchAll(/^```sh\n(.*?)^```/gms)].map(([, commands]) => commands ?? '')
  assert.equal(blocksOfPage.length, blocks, 'a new block needs its outcome here')

  const npm = spawn('npm', ['run', '--silent', 'dev', '--', '--edge'], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.after(async () => {
    npm.kill('SIGTERM')
    if (npm.exitCode === null) await once(npm, 'exit')
  })
  const exportLine = await new Promise<string>((resolve, reject) => {
    npm.once('exit', (code) => reject(new Error(`npm run dev ended with ${code}`)))
    createInterface({ input: npm.stdout }).on('line', (line) => {
      if (line.startsWith('  export ')) resolve(line)
    })
  })
  const mark = '---- end of block ----'
  const terminal = [exportLine, ...blocksOfPage.flatMap((block) => [block, `echo '${mark}'`])].join('\n')
  const { stdout, stderr, status } = spawnSync('bash', [...shellFlags.split(' '), '-c', terminal], {
    cwd: root,
    encoding: 'utf8',
    timeout: loadScaledTimeout(180_000),
  })
  assert.equal(status, 0, `${stdout}\n${stderr}`)
  return { printed: stdout.split(`${mark}\n`), stderr }
}
