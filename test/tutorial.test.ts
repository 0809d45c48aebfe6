// docs/tutorial.md, typed in as printed: one terminal, one block after the other.
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { patience } from './harness/patience.ts'

const root = new URL('..', import.meta.url).pathname

test('every command of the tutorial works as printed, and shows what the page says', async (t) => {
  for (const tool of ['curl', 'haproxy', 'nats-server', 'openssl'])
    if (spawnSync('sh', ['-c', `command -v ${tool}`]).status !== 0) return t.skip(`${tool} is not installed`)
  const page = await readFile(`${root}docs/tutorial.md`, 'utf8')
  const blocks = [...page.matchAll(/^```sh\n(.*?)^```/gms)].map(([, commands]) => commands ?? '')
  assert.equal(blocks.length, 9, 'a new block needs its outcome here')

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
  // -e: a command that fails ends it, as it would end a reader's patience.
  const terminal = [exportLine, ...blocks.flatMap((block) => [block, `echo '${mark}'`])].join('\n')
  const { stdout, stderr, status } = spawnSync('bash', ['-euo', 'pipefail', '-c', terminal], {
    cwd: root,
    encoding: 'utf8',
    timeout: patience(180_000),
  })
  assert.equal(status, 0, `${stdout}\n${stderr}`)
  const [
    start = '',
    key = '',
    rotated = '',
    warned = '',
    evidence = '',
    allowed = '',
    enforced = '',
    edge = '',
    back = '',
  ] = stdout.split(`${mark}\n`)
  assert.match(start, /usr_\w+/)
  assert.equal(key, '200\n')
  const { previous_token, rotated_at } = JSON.parse(rotated)
  assert.ok(rotated_at)
  assert.equal(previous_token.last_used_ip, '127.0.0.1')
  assert.match(warned, /^HTTP\/1.1 200/)
  assert.match(warned, /^service-warning: ip_restriction=ipx_/im)
  assert.match(evidence, /127\.0\.0\.5/)
  assert.equal(allowed, '0\n')
  assert.match(enforced, /^127\.0\.0\.1 200\n127\.0\.0\.5 200\n127\.0\.0\.6 403\n/)
  assert.match(enforced, /^op_\w+/m)
  assert.match(edge, /"x-team": "platform"/)
  const teams = [...back.matchAll(/"x-team": "(\w+)"/g)].map(([, team]) => team)
  assert.deepEqual(teams, ['oops', 'platform'])
  assert.match(back, /https_edge_routes/)
})
