// Finding things: by name, filtered, sorted, in a form of one's own, and again and again.
// cspell:ignore descripton ofice
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { after, test } from 'node:test'
import { exits } from '../../src/cli/exits.ts'
import { make } from '../harness/fixtures.ts'
import { poll } from '../harness/poll.ts'
import { program } from '../harness/program.ts'
import { sharedControlPlane } from '../harness/shared_control_plane.ts'
import { cliFor } from './harness.ts'

const plane = await sharedControlPlane({ after })
const admin = await plane.newAccount()
const cli = cliFor(plane, admin)
const policies = await Promise.all(
  ['office', 'branch', 'twin', 'twin'].map((description) => make(admin, '/ip_policies', { description })),
)
const [office] = policies

test('rows are filtered, sorted and printed by a template', async () => {
  const list = (...args: string[]) => cli.ok(['ip-policies', 'list', '--limit', '1', ...args])
  const names = ['--template', '{description}']
  // From all pages, not only the first.
  assert.equal(await list('--sort-by', 'description', ...names), 'branch\noffice\ntwin\ntwin\n')
  assert.equal(await list('--sort-by=-description', ...names), 'twin\ntwin\noffice\nbranch\n')
  assert.equal(await list('--filter', 'description~FF', '-o', 'ids'), `${office?.id}\n`)
  assert.equal(await list('--filter', 'description!=twin', '--filter', 'description!=office', ...names), 'branch\n')
  assert.equal(await list('--filter', 'description=nothing', ...names), '')
  assert.equal(await cli.ok(['ip-policies', 'get', office?.id, '--template', 'a\\t{{{id}']), `a\t{${office?.id}\n`)
  const backend = await make(admin, '/backends/static', { address: 'a.internal:1', tls: { enabled: true } })
  assert.equal(
    await cli.ok(['backends', 'static', 'list', '--filter', 'tls.enabled=true', '--template', '{id} {tls.enabled}']),
    `${backend.id} true\n`,
  )
  for (const wrong of [
    ['--filter', 'descripton=x'],
    ['--sort-by', 'descripton'],
    ['--template', '{descripton}'],
  ]) {
    const { code, stderr } = await cli(['ip-policies', 'list', ...wrong])
    assert.deepEqual([code, /Did you mean description\?/.test(stderr)], [exits.usage.code, true], stderr)
  }
})

test('a name stands for the one thing that is called so', async () => {
  assert.equal((await cli.json(['ip-policies', 'get', 'office'])).id, office?.id)
  const edge = await make(admin, '/edges/https', { hostports: ['named.example:443'] })
  const route = await make(admin, `/edges/https/${edge.id}/routes`, { match_type: 'path_prefix', match: '/api' })
  assert.equal((await cli.json(['edges', 'https', 'routes', 'get', 'named.example:443', '/api'])).id, route.id)
  const twins = await cli(['ip-policies', 'delete', 'twin'])
  assert.equal(twins.code, exits.refused.code)
  for (const { id } of policies.slice(2)) assert.ok(twins.stderr.includes(id))
  const mistyped = await cli(['ip-policies', 'get', 'ofice'])
  assert.deepEqual([mistyped.code, /Did you mean 'office'\?/.test(mistyped.stderr)], [exits.notFound.code, true])
})

test('--watch prints a list again when it has changed, until it is ended', async () => {
  const env = { ...process.env, ...cli.env }
  const child = spawn(process.execPath, [program, 'bot-users', 'list', '--template', '{name}', '--watch'], { env })
  let shown = ''
  child.stdout.on('data', (chunk) => {
    shown += chunk
  })
  await make(admin, '/bot_users', { name: 'first' })
  await poll(() => shown.endsWith('first\n'))
  await make(admin, '/bot_users', { name: 'second' })
  await poll(() => shown.endsWith('second\nfirst\n'))
  child.kill('SIGINT')
  await once(child, 'exit')
  assert.equal(shown, 'first\nsecond\nfirst\n')
})

test('completion offers the ids of the service, and nothing when it cannot be asked', async () => {
  const words = (typed: string, env = {}) =>
    cli.ok(['completion', 'words', '--', ...typed.split(' ')], { env }).then((text) => text.trim().split('\n'))
  assert.deepEqual((await words('ip-policies get ')).sort(), policies.map(({ id }) => id).sort())
  assert.deepEqual(await words('ip-policies get ', { GATEHOUSE_URL: 'http://127.0.0.1:1' }), [''])
})

test('api sends any request, with the token of the profile and to its service only', async () => {
  assert.equal(JSON.parse(await cli.ok(['api', 'get', '/ip_policies?limit=1'])).ip_policies.length, 1)
  const made = JSON.parse(
    await cli.ok(['api', 'POST', '/ip_policies', '--data', '-'], { input: '{"description":"raw"}' }),
  )
  assert.equal(await cli.ok(['api', 'DELETE', made.uri.replace(/^https?:\/\/[^/]+/, '')]), '')
  assert.equal((await cli(['api', 'GET', '/ip_policies/ipp_none'])).code, exits.notFound.code)
  for (const args of [
    ['GET', '//elsewhere.example/'],
    ['GET', 'http://elsewhere.example'],
    ['FETCH', '/caller'],
    ['GET'],
  ])
    assert.equal((await cli(['api', ...args])).code, exits.usage.code, args.join(' '))
  const header = await cli(['api', 'GET', '/caller', '--header', 'Authorization: Bearer x'])
  assert.equal(header.code, exits.usage.code)
})

test('auth status says where the server and the key come from, and upgrade check compares versions', async () => {
  const status = await cli.json(['auth', 'status'])
  assert.deepEqual(
    [status.url, status.url_from, status.token_from],
    [cli.env.GATEHOUSE_URL, 'GATEHOUSE_URL', 'GATEHOUSE_API_KEY'],
  )
  assert.match(await cli.ok(['auth', 'status']), /^expires_at +never$/m)
  assert.ok(!JSON.stringify(status).includes(admin.token))
  const wrong = await cli(['auth', 'status'], { env: { GATEHOUSE_API_KEY: `${admin.token.slice(0, -1)}_` } })
  assert.equal(wrong.code, exits.notAllowed.code)
  assert.match(await cli.ok(['upgrade', 'check']), /^this command +\S+\nservice +\S+\n\nAll versions are the same\.$/m)
})
