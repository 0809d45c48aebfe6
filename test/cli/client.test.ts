// The `gatehouse` command as a client, as people and their scripts meet it.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile, stat, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { after, test } from 'node:test'
import { exits } from '../../src/cli/exits.ts'
import { startControlPlane } from '../harness/control_plane.ts'
import { loadScaledTimeout } from '../harness/load_scaled_timeout.ts'
import { newUser } from '../harness/principals.ts'
import { program } from '../harness/program.ts'
import { testRun } from '../harness/test_run.ts'
import { cliFor } from './harness.ts'

const plane = await startControlPlane({ after })
const admin = await plane.newAccount()
const cli = cliFor(plane, admin)

test('exit codes tell scripts what happened', async () => {
  const member = cliFor(plane, await newUser(plane, admin))
  const wrongToken = { GATEHOUSE_API_KEY: `${admin.token.slice(0, -1)}_` }
  const cases: [exit: keyof typeof exits, told: RegExp, args: string[], env?: Record<string, string>][] = [
    ['ok', /^$/, ['caller']],
    ['usage', /unknown command 'keys'/, ['keys', 'list']],
    ['usage', /unknown command 'api-keys make'/, ['api-keys', 'make']],
    ['usage', /Unknown option '--color'/, ['api-keys', 'list', '--color']],
    ['usage', /needs <id>/, ['api-keys', 'get']],
    ['usage', /--type and --ip-policy-ids are required/, ['ip-restrictions', 'create']],
    ['usage', /--limit must be a number/, ['api-keys', 'list', '--limit', 'ten']],
    ['usage', /--output of api-keys list must be one of/, ['api-keys', 'list', '-o', 'xml']],
    ['usage', /GATEHOUSE_URL is not set/, ['caller'], { GATEHOUSE_URL: '' }],
    ['usage', /no server configured/, ['caller'], { GATEHOUSE_URL: '', GATEHOUSE_API_KEY: '' }],
    ['refused', /limit must be <= 100/, ['api-keys', 'list', '--limit', '101']],
    ['refused', /ERR_PRECONDITION_FAILED/, ['users', 'update', admin.adminId, '--name', 'A', '--if-match', '"x"']],
    ['notAllowed', /ERR_UNAUTHENTICATED/, ['caller'], wrongToken],
    ['notFound', /no such API key/, ['api-keys', 'get', 'ak_nope']],
    ['unreachable', /cannot be reached/, ['caller'], { GATEHOUSE_URL: 'http://127.0.0.1:1' }],
  ]
  for (const [exit, told, args, env] of cases) {
    const { code, stdout, stderr } = await cli(args, { env })
    assert.equal(code, exits[exit].code, `gatehouse ${args.join(' ')}: ${stderr}`)
    assert.match(stderr, told)
    if (exit !== 'ok') assert.equal(stdout, '')
    assert.ok(!stderr.includes(admin.token))
  }
  const { code, stderr } = await member(['users', 'create', '--name', 'x', '--email', 'x@example.com'])
  assert.equal(code, exits.notAllowed.code, stderr)
})

test('a limited key is created with one flag for each scope and range', async () => {
  const key = await cli.json([
    ...['api-keys', 'create', '--scope', '*.get', '--scope', '*.list', '--scopes', 'caller.get,users.create'],
    ...['--allowed-cidr', '127.0.0.1', '--allowed-cidr', '2001:db8::/32'],
  ])
  assert.deepEqual(key.scopes, ['caller.get', 'users.create', '*.get', '*.list'])
  assert.deepEqual(key.allowed_cidrs, ['127.0.0.1/32', '2001:db8::/32'])
  const env = { GATEHOUSE_API_KEY: key.token }
  assert.equal((await cli(['api-keys', 'list'], { env })).code, exits.ok.code)
  const { code, stderr } = await cli(['ip-policies', 'create'], { env })
  assert.equal(code, exits.notAllowed.code)
  assert.match(
    stderr,
    /do not include ip_policies.create.*\(ERR_SCOPE\)\n {2}operation: ip_policies.create\n {2}missing: /s,
  )
  const mistyped = await cli(['api-keys', 'create', '--scope', 'ip_policy.*'])
  assert.match(mistyped.stderr, /scopes\[0\] matches no operation; did you mean \w+\.\*/)
})

test('a refusal is printed with its hint and its operation id', async () => {
  const { stderr } = await cli(['api-keys', 'create', '--description', 'x'.repeat(256)])
  assert.match(
    stderr,
    /^gatehouse: description .*255 bytes.*\(ERR_INVALID_FIELD\)\n {2}hint: .+\n {2}operation: op_\w{26}\n$/,
  )
})

test('ids can be piped between commands, and a missing one does not stop the others', async () => {
  const made = await Promise.all([1, 2, 3].map((n) => cli.ok(['bot-users', 'create', '--name', `b${n}`, '-o', 'ids'])))
  const ids = made.map((id) => id.trim())
  assert.equal(await cli.ok(['bot-users', 'list', '--output', 'ids']), `${ids.toSorted().reverse().join('\n')}\n`)
  const { code, stderr } = await cli(['bot-users', 'delete', '-'], {
    input: [ids[0], 'bot_gone', ids[1], ids[2]].join('\n'),
  })
  assert.equal(code, exits.notFound.code)
  assert.match(stderr, /\/bot_users\/bot_gone: This account has no such bot/)
  assert.equal(await cli.ok(['bot-users', 'list', '--output', 'ids']), '')
})

test('--all reads every page; without it, a note says that there are more', async () => {
  const account = await plane.newAccount()
  const mine = cliFor(plane, account)
  for (let made = 0; made < 7; made++) await account('POST', '/ip_policies', { description: `p${made}` })
  const few = await mine(['ip-policies', 'list', '--limit', '3'])
  assert.equal(few.stdout.trim().split('\n').length, 4)
  assert.match(few.stderr, /There are more results. Use --all/)
  const { ip_policies, next_page_uri } = await mine.json(['ip-policies', 'list', '--limit', '3', '--all'])
  assert.equal(next_page_uri, null)
  assert.deepEqual(
    ip_policies.map(({ description }: { description: string }) => description),
    ['p6', 'p5', 'p4', 'p3', 'p2', 'p1', 'p0'],
  )
})

test('tables are aligned, complete in a pipe, cut to the terminal width, and free of terminal escapes', async () => {
  const account = await plane.newAccount()
  const mine = cliFor(plane, account)
  await account('POST', '/ip_policies', { description: `evil \u001b[2J\u202e ${'long '.repeat(40)}` })
  await account('POST', '/ip_policies', { description: '漢字' })
  const piped = await mine.ok(['ip-policies', 'list'])
  const [head = '', first = ''] = piped.split('\n')
  assert.match(head, /^ID {2,}DESCRIPTION {2,}CREATED AT$/)
  assert.match(first, /^ipp_\w{26} {2}漢字 +\d{4}-/)
  assert.ok(!piped.includes('\u001b') && !piped.includes('\u202e'))
  assert.ok(piped.includes('evil \\u001b[2J\\u202e long'))
  // script makes a terminal of 60 columns. On stderr a slow command shows how long it waits.
  const typed = `stty cols 60; ${process.execPath} ${program} ip-policies list 2>/dev/null`
  const child = spawn('script', ['-qec', typed, '/dev/null'], { env: { ...process.env, ...mine.env, NO_COLOR: '1' } })
  child.stdin.end()
  const shown = (await text(child.stdout)).replaceAll('\r', '').trim().split('\n')
  assert.equal(shown.length, 3, shown.join('\n'))
  for (const line of shown) assert.ok(line.length <= 60, line)
  assert.ok(shown.some((line) => line.includes('…')))
  assert.ok(!shown.join('').includes('\u001b'), 'NO_COLOR')
})

test('json, yaml, ids and text are for scripts', async () => {
  const id = (await cli.ok(['ip-policies', 'create', '--description', 'a: b', '-o', 'ids'])).trim()
  assert.match(id, /^ipp_\w{26}$/)
  const { parse } = await import('yaml')
  const asYaml = parse(await cli.ok(['ip-policies', 'get', id, '-o', 'yaml']))
  assert.deepEqual(asYaml, await cli.json(['ip-policies', 'get', id]))
  const rules = 'allow 10.0.0.0/8 # ten\ndeny 10.0.0.1/32\n'
  const { added } = await cli.json(['ip-policies', 'rules', 'replace', id, '--file', '-'], { input: rules })
  assert.equal(added, 2)
  assert.equal(await cli.ok(['ip-policies', 'rules', 'get', id, '-o', 'text']), rules)
  const file = join(testRun.folder, 'rules.json')
  await writeFile(file, JSON.stringify({ rules: [{ action: 'allow', cidr: '192.0.2.0/24' }] }))
  assert.equal((await cli.json(['ip-policies', 'rules', 'replace', id, '--file', file])).removed, 2)
})

test('a whole body can be given and flags override its fields; nested fields use dots; --no- clears', async () => {
  const created = await cli.json(
    ['backends', 'static', 'create', '--data', '-', '--tls.enabled', '--description', 'from the flag'],
    { input: '{"address": "a.internal:1", "description": "from the data"}' },
  )
  assert.deepEqual(
    [created.address, created.description, created.tls],
    ['a.internal:1', 'from the flag', { enabled: true }],
  )
  const changed = await cli.json(['backends', 'static', 'update', created.id, '--no-description', '--no-tls.enabled'])
  assert.deepEqual([changed.description, changed.tls], [undefined, { enabled: false }])
  const edge = await cli.json(['edges', 'https', 'create', '--hostports', 'cli.example:443'])
  const route = await cli.json([
    ...['edges', 'https', 'routes', 'create', edge.id, '--match-type', 'path_prefix', '--match', '/'],
    ...[
      '--request-headers.add',
      'X-A=1,2',
      '--request-headers.add',
      'X-B=x=y',
      '--request-headers.remove',
      'Cookie,TE-X',
    ],
  ])
  assert.deepEqual(route.request_headers, {
    enabled: true,
    add: { 'X-A': '1,2', 'X-B': 'x=y' },
    remove: ['Cookie', 'TE-X'],
  })
})

test('check is short for ip-checks create', async () => {
  assert.match(await cli.ok(['check', '--type', 'agent', '203.0.113.9']), /^allowed +true$/m)
})

/** Between the command and the service: what it does to an answer is the test's choice. */
async function between(spoil: (tries: number) => 'pass' | 'lose the answer' | 'never answer' | 'unavailable') {
  let tries = 0
  const server = createServer(async (request, response) => {
    const how = spoil(++tries)
    if (how === 'never answer') return
    if (how === 'unavailable')
      return response
        .writeHead(503, { 'operation-id': 'op_x' })
        .end('{"error_code":"ERR_UNAVAILABLE","msg":"Not now."}')
    const body = await text(request)
    const { host: _, connection: __, ...headers } = request.headers as Record<string, string>
    const passed = await fetch(`${plane.processes[0]?.origin}${request.url}`, {
      method: request.method ?? '',
      headers,
      ...(body && { body }),
    })
    const answer = await passed.text()
    if (how === 'lose the answer') return request.socket.destroy()
    response.writeHead(
      passed.status,
      Object.fromEntries([...passed.headers].filter(([name]) => name !== 'content-length')),
    )
    return response.end(answer)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  after(() => server.closeAllConnections())
  after(() => server.close())
  return { GATEHOUSE_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
}

test('a creation whose response was lost is retried and creates one resource', async () => {
  const env = await between((tries) => (tries === 1 ? 'lose the answer' : 'pass'))
  const mine = cliFor(plane, await plane.newAccount())
  const { id } = await mine.json(['ip-policies', 'create', '--description', 'once'], { env })
  assert.equal(await mine.ok(['ip-policies', 'list', '-o', 'ids']), `${id}\n`)
  const gone = await mine(['ip-policies', 'delete', id], {
    env: await between((tries) => (tries === 1 ? 'lose the answer' : 'pass')),
  })
  assert.deepEqual([gone.code, gone.stderr], [0, ''])
})

test("when a key's creation had to be retried, its token is missing and a message says so", async () => {
  const env = await between((tries) => (tries === 1 ? 'lose the answer' : 'pass'))
  const { code, stdout, stderr } = await cli(['api-keys', 'create', '-o', 'json'], { env })
  assert.deepEqual([code, JSON.parse(stdout).token], [0, null])
  assert.match(stderr, /not shown again. Delete the key and create another/)
})

test('an unavailable service is retried, and one that never answers does not hang the command', async () => {
  const { code } = await cli(['caller'], { env: await between((tries) => (tries < 3 ? 'unavailable' : 'pass')) })
  assert.equal(code, 0)
  const refused = await cli(['caller'], { env: await between(() => 'unavailable') })
  assert.equal(refused.code, exits.unreachable.code)
  const began = Date.now()
  const hung = await cli(['caller', '--timeout', '0.5'], { env: await between(() => 'never answer') })
  assert.equal(hung.code, exits.unreachable.code)
  assert.match(hung.stderr, /did not respond within 0.5 s/)
  assert.ok(Date.now() - began < loadScaledTimeout(20_000))
})

test('profiles are readable only by their owner, and a token is sent only to its own service', async () => {
  const folder = join(testRun.folder, 'xdg')
  const env = { XDG_CONFIG_HOME: folder, GATEHOUSE_URL: '', GATEHOUSE_API_KEY: '' }
  const url = plane.processes[0]?.origin ?? ''
  await cli.ok(['profiles', 'add', 'one', '--url', `${url}/`], { env, input: `${admin.token}\n` })
  const other = await plane.newAccount()
  const keyFile = join(testRun.folder, 'other-key')
  await writeFile(keyFile, `${other.token}\n`)
  await cli.ok(['profiles', 'add', 'two', '--url', url, '--api-key-file', keyFile], { env })
  const file = join(folder, 'gatehouse', 'profiles.json')
  assert.equal((await stat(file)).mode & 0o777, 0o600)
  assert.ok(!(await readFile(file, 'utf8')).includes(other.token))
  const listed = await cli.ok(['profiles', 'list'], { env })
  assert.match(listed, /^\* +one +http/m)
  assert.ok(!listed.includes(admin.token))
  const who = async (...args: string[]) => (await cli.json(['caller', ...args], { env })).account_id
  assert.equal(await who(), admin.accountId)
  assert.equal(await who('--profile', 'two'), other.accountId)
  await cli.ok(['profiles', 'use', 'two'], { env })
  assert.equal(await who(), other.accountId)
  await cli.ok(['profiles', 'remove', 'two'], { env })
  assert.equal((await cli(['caller'], { env })).code, exits.usage.code)
  const half = await cli(['caller'], { env: { ...env, GATEHOUSE_URL: 'http://127.0.0.1:1' } })
  assert.match(half.stderr, /GATEHOUSE_API_KEY .* is not set, but its counterpart is/)
})

test('a server that is not Gatehouse is detected, and a redirect does not receive the token', async () => {
  const asked: string[] = []
  const server = createServer((request, response) => {
    asked.push(request.url ?? '')
    if (request.url === '/caller') response.writeHead(307, { location: '/elsewhere' }).end()
    else response.end('hello')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  after(() => server.close())
  const env = { GATEHOUSE_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
  assert.match((await cli(['caller'], { env })).stderr, /redirects to \/elsewhere, and the token is not sent there/)
  const { code, stderr } = await cli(['users', 'list'], { env })
  assert.deepEqual([code, asked], [exits.unreachable.code, ['/caller', '/users']])
  assert.match(stderr, /is not Gatehouse/)
})

test('--help works at every level without a connection', async () => {
  const env = { GATEHOUSE_URL: '', GATEHOUSE_API_KEY: '' }
  assert.match(await cli.ok(['--help'], { env }), /gatehouse api-keys +create, list, get, update, delete/)
  assert.match(await cli.ok(['edges', '--help'], { env }), /gatehouse edges https routes create <edge_id>/)
  assert.match(
    await cli.ok(['ip-restrictions', 'create', '--help'], { env }),
    /--type dashboard\|api\|agent\|endpoints (?:(?!--).)*\(required\)/s,
  )
  for (const own of ['profiles', 'completion'])
    assert.match(await cli.ok([own, '--help'], { env }), new RegExp(`gatehouse ${own}`))
})
