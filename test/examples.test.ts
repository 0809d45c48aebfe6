// The files in examples/, used as their pages say: with the real command, service, nginx and HAProxy.
import assert from 'node:assert/strict'
import { type ChildProcess, execFile, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmod, cp, glob, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { request } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { after, type TestContext, test } from 'node:test'
import { promisify } from 'node:util'
import { Webhook } from 'standardwebhooks'
import { parse } from 'yaml'
import { freePort } from '../dev/ports.ts'
import { cliFor } from './cli/harness.ts'
import { newCertificate } from './harness/certificates.ts'
import { startControlPlane } from './harness/control_plane.ts'
import { poll } from './harness/poll.ts'

const root = new URL('..', import.meta.url).pathname
const example = (file: string) => readFile(join(root, 'examples', file), 'utf8')
const plane = await startControlPlane({ after }, { env: { GATEHOUSE_TRUSTED_PROXIES: '127.0.0.1' } })
const origin = plane.processes[0]?.origin ?? ''

async function newFolder(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-examples-'))
  t.after(() => rm(folder, { recursive: true }))
  return folder
}

function kept(t: TestContext, child: ChildProcess): ChildProcess {
  t.after(async () => {
    child.kill('SIGTERM')
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
  })
  return child
}

test('every state file of the examples can be applied to an empty account, and then nothing differs', async () => {
  const files = await Array.fromAsync(glob('examples/state-files/*.yaml', { cwd: root }))
  assert.ok(files.length >= 3)
  for (const file of files) {
    const cli = cliFor(plane, await plane.newAccount())
    await cli.ok(['state', 'apply', join(root, file)])
    assert.equal((await cli(['state', 'diff', join(root, file)])).code, 0, file)
  }
})

test('the commands of the CI workflow check a file, show what would change, and apply it', async (t) => {
  const { token } = await plane.newAccount()
  const folder = await newFolder(t)
  await cp(join(root, 'examples/state-files/office-only.yaml'), join(folder, 'gatehouse.yaml'))
  await writeFile(join(folder, 'gatehouse'), `#!/bin/sh\nexec '${process.execPath}' '${root}src/main.ts' "$@"\n`)
  await chmod(join(folder, 'gatehouse'), 0o700)
  const { steps } = parse(await example('ci/github-actions.yaml')).jobs.state
  const env = { ...process.env, PATH: `${folder}:${process.env.PATH}`, GATEHOUSE_URL: origin, GATEHOUSE_API_KEY: token }
  const run = (command: string) => promisify(execFile)('bash', ['-e', '-c', command], { cwd: folder, env })
  const [validate, diff, apply] = steps.flatMap(({ run }: { run?: string }) => run ?? [])
  await run(validate)
  assert.match((await run(diff)).stdout, /office/)
  // No edge node is live here, which the command says with 10.
  await assert.rejects(run(apply), { code: 10 })
  assert.equal((await run(diff)).stdout, '')
})

const proxies = [
  {
    name: 'nginx',
    program: '/usr/sbin/nginx',
    file: 'proxies/nginx.conf',
    async start(folder: string, configuration: string) {
      const main = `daemon off; pid ${folder}/pid; error_log stderr; events {} http { access_log off;
        ${['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((kind) => `${kind}_temp_path ${folder}/${kind};`).join(' ')}
        ${configuration} }`
      await writeFile(join(folder, 'nginx.conf'), main)
      return ['-c', join(folder, 'nginx.conf'), '-e', 'stderr']
    },
  },
  {
    name: 'HAProxy',
    program: 'haproxy',
    file: 'proxies/haproxy.cfg',
    async start(folder: string, configuration: string) {
      await writeFile(join(folder, 'haproxy.cfg'), configuration)
      return ['-db', '-f', join(folder, 'haproxy.cfg')]
    },
  },
]

for (const { name, program, file, start } of proxies) {
  test(`${name} in front of the API, as in the example: the client's address arrives, and probes stay inside`, async (t) => {
    if (spawnSync(program, ['-v']).error) return t.skip(`${name} is not installed`)
    const { token } = await plane.newAccount()
    const folder = await newFolder(t)
    const { certificate_pem, private_key_pem } = newCertificate(['gatehouse.example.com'])
    await writeFile(join(folder, 'fullchain.pem'), certificate_pem)
    await writeFile(join(folder, 'privkey.pem'), private_key_pem)
    await writeFile(join(folder, 'gatehouse.pem'), certificate_pem + private_key_pem)
    const port = await freePort()
    const there = (await example(file))
      .replaceAll('/etc/ssl/gatehouse', folder)
      .replace(/(listen|bind) (:?)443/, (_, word, colon) => `${word} ${colon ? '127.0.0.1:' : ''}${port}`)
      .replaceAll('127.0.0.1:8080', origin.slice('http://'.length))
    const child = kept(t, spawn(program, await start(folder, there), { stdio: ['ignore', 'ignore', 'inherit'] }))
    const get = async (path: string, headers: Record<string, string> = {}) => {
      const call = request({
        host: '127.0.0.1',
        port,
        path,
        headers: { Host: 'gatehouse.example.com', ...headers },
        localAddress: '127.0.0.7',
        servername: 'gatehouse.example.com',
        rejectUnauthorized: false,
      })
      const [response] = await once(call.end(), 'response')
      return { status: response.statusCode, body: await text(response) }
    }
    const authorized = { Authorization: `Bearer ${token}`, 'Service-Version': '2', 'X-Forwarded-For': '203.0.113.99' }
    // One of the two processes of the example is not there: the proxy has to find that out first.
    const answered = await poll(
      () => get('/caller', authorized).catch((error) => assert.ok(child.exitCode === null, error) as undefined),
      (answer) => answer?.status === 200,
    )
    assert.equal(JSON.parse(answered?.body ?? '').source_ip, '127.0.0.7')
    for (const path of ['/healthz', '/readyz', '/metrics']) assert.equal((await get(path)).status, 404, path)
  })
}

test('the receiver of the examples accepts signed events only', async (t) => {
  const secret = `whsec_${Buffer.alloc(24, 7).toString('base64')}`
  const port = await freePort()
  const env = { ...process.env, WEBHOOK_SECRET: secret, PORT: String(port) }
  const child = kept(
    t,
    spawn(process.execPath, [join(root, 'examples/webhooks/receiver.mjs')], { env, stdio: 'inherit' }),
  )
  const send = async (body: string, signed = body) => {
    const now = new Date()
    const headers = {
      'webhook-id': 'ev_1',
      'webhook-timestamp': String(Math.floor(now.getTime() / 1_000)),
      'webhook-signature': new Webhook(secret).sign('ev_1', now, signed),
    }
    return (await fetch(`http://127.0.0.1:${port}`, { method: 'POST', body, headers })).status
  }
  const event = JSON.stringify({ type: 'api_keys.create', data: { resource_id: 'ak_1' } })
  await poll(
    () => send(event).catch(() => assert.ok(child.exitCode === null)),
    (status) => status === 204,
  )
  assert.equal(await send(event.replace('ak_1', 'ak_2'), event), 401)
})
