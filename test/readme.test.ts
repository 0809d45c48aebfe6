// The README, as somebody reads it who has just cloned this: every command, as printed, in the order of the page.
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { patience } from './harness/patience.ts'

const root = new URL('..', import.meta.url).pathname
const missing = ['curl --version', 'haproxy -v', 'nats-server --version', 'openssl version'].filter((command) => {
  const [name = '', ...args] = command.split(' ')
  return spawnSync(name, args).error
})

test('every command of the README works as printed, and does what the page says', async (t) => {
  if (missing.length) return t.skip(`not installed: ${missing.join(', ')}`)
  const readme = await readFile(`${root}README.md`, 'utf8')
  // The blocks in sh are for the second terminal; the first one runs npm.
  assert.match(readme, /^```\nnpm run dev -- --edge\n```/m)
  const blocks = [...readme.matchAll(/^```sh\n(.*?)^```/gms)].map(([, commands]) => commands ?? '')
  assert.equal(blocks.length, 4, 'a new block needs its outcome here')

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
  // One terminal: what a block defines, those after it can use.
  const mark = '---- end of block ----'
  const terminal = [exportLine, ...blocks.flatMap((block) => [block, `echo '${mark}'`])].join('\n')
  const { stdout, stderr, status } = spawnSync('bash', ['-u', '-c', terminal], {
    cwd: root,
    encoding: 'utf8',
    timeout: patience(120_000),
  })
  assert.equal(status, 0, stderr)
  const [keys = '', typed = '', edge = '', changed = ''] = stdout.split(`${mark}\n`)

  const [created, got, listed, updated, deleted] = keys.trim().split('\n')
  assert.match(created ?? '', /"token":"gatehouse_/)
  assert.match(got ?? '', /"description":"nightly backup".*"token":null/)
  assert.match(listed ?? '', /^\{"keys":\[.*"next_page_uri":null\}$/)
  assert.match(updated ?? '', /"description":"weekly backup","metadata":"team=storage"/)
  assert.equal(deleted, '204')

  assert.match(typed, /^token +gatehouse_\w+$/m)
  assert.match(typed, /^ID +DESCRIPTION/m)
  assert.match(typed, /^ak_\w+ +nightly backup/m)
  assert.match(typed, /^ipp_\w+$/m)
  assert.match(typed, /^allowed +true$/m)
  assert.match(typed, /--description DESCRIPTION/)

  const [greeting, ...answers] = edge.split('\n')
  assert.equal(greeting, 'hello from the upstream')
  const text = answers.join('\n')
  // Nothing came from the second call: what follows is the upstream of the third, then the refusal of the fourth.
  assert.match(text, /^\{\n/)
  const [headers = '', refusal = ''] = text.split(/(?<=^\}\n)/m)
  const reached = JSON.parse(headers)
  assert.deepEqual(
    [reached.cookie, reached['x-from-the-edge'], reached['x-forwarded-for']],
    [undefined, 'yes', '127.0.0.2'],
  )
  assert.match(refusal, /ERR_IP_REFUSED/)

  const [said = '', ...after] = changed.split('\n')
  assert.match(said, /^deleted ip_policy_rules\/ipr_\w+$/)
  assert.match(stderr, /in force on 1\/1 live edge nodes/)
  assert.equal(JSON.parse(after.join('\n'))['x-forwarded-for'], '127.0.0.9')
})
