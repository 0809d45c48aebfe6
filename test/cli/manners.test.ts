// What the command does for people: it asks before it deletes, guesses what was meant, and shows what they look for.
// cspell:ignore sreve htps descripton xyzzy
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { after, test } from 'node:test'
import { operations } from '../../src/cli/operations.ts'
import { firstColumns } from '../../src/cli/output/columns.ts'
import { idFieldOf, outputsOf } from '../../src/cli/output/output.ts'
import { serverCommands } from '../../src/server_commands.ts'
import { make } from '../harness/fixtures.ts'
import { program } from '../harness/program.ts'
import { sharedControlPlane } from '../harness/shared_control_plane.ts'
import { testRun } from '../harness/test_run.ts'
import { cliFor } from './harness.ts'

const plane = await sharedControlPlane({ after })
const admin = await plane.newAccount()
const cli = cliFor(plane, admin)

/** What a person sees on a terminal, who then types `typed`. */
async function onTerminal(args: string[], typed = '', columns = 140): Promise<string> {
  const command = `stty cols ${columns} -echo; ${[process.execPath, program, ...args].join(' ')}`
  const env = { ...process.env, ...cli.env, NO_COLOR: '1' }
  const child = spawn('script', ['-qec', command, '/dev/null'], { env })
  if (typed) child.stdin.write(`${typed}\n`)
  else child.stdin.end()
  // Without the line of progress, which appears and goes again when the machine is slow.
  const lines = (await text(child.stdout)).split('\n').map((line) => line.split('\x1b[K').at(-1) ?? '')
  const shown = lines.join('\n').replaceAll('\r', '')
  child.stdin.end()
  return shown
}

test('on a terminal a deletion asks, and only yes deletes', async () => {
  const { id } = await make(admin, '/ip_policies', { description: 'office' })
  const status = async () => (await admin('GET', `/ip_policies/${id}`)).status
  assert.match(
    await onTerminal(['ip-policies', 'delete', id], 'n'),
    /Delete ip_policies\/ipp_\w+\? .*canceled; nothing/s,
  )
  assert.equal(await status(), 200)
  assert.match(await onTerminal(['ip-policies', 'delete', id], 'yes'), /deleted ip_policies/)
  assert.equal(await status(), 404)
  const other = await make(admin, '/ip_policies', {})
  assert.doesNotMatch(await onTerminal(['ip-policies', 'delete', other.id, '--yes']), /\?/)
  // A script is not asked.
  const third = await make(admin, '/ip_policies', {})
  assert.match(await cli.ok(['ip-policies', 'delete', third.id]), /^deleted/)
})

test('a mistyped command, verb, flag or column is answered with the one that was meant', async () => {
  for (const [args, meant] of [
    [['sreve'], "'gatehouse serve'"],
    [['api-key', 'list'], "'gatehouse api-keys'"],
    [['api-keys', 'lst'], "'gatehouse api-keys list'"],
    [['edges', 'htps', 'list'], "'gatehouse edges https'"],
    [['api-keys', 'create', '--descripton', 'x'], '--description'],
    [['api-keys', 'list', '--columns', 'id,last_used'], 'last_used_at'],
    [['ip-restrictions', 'create', '--type', 'endpoint', '--ip-policy-ids', 'ipp_x'], 'endpoints'],
    [['api-keys', 'list', '--output', 'jsn'], 'json'],
  ] as const) {
    const { code, stderr } = await cli([...args])
    assert.equal(code, 2, stderr)
    assert.ok(stderr.includes(`Did you mean ${meant}?`), stderr)
  }
  assert.doesNotMatch((await cli(['xyzzy'])).stderr, /Did you mean/)
})

test('words that are no command are answered in a few lines, with the commands that fit', async () => {
  const { code, stderr } = await cli(['edges', 'list'])
  assert.equal(code, 2)
  const told = stderr.trimEnd().split('\n')
  assert.deepEqual(told.slice(0, 4), [
    "gatehouse: unknown command 'edges list'",
    '  Did you mean one of these?',
    '    gatehouse edges https list',
    '    gatehouse edges tcp list',
  ])
  assert.match(told.at(-1) ?? '', /'gatehouse edges' is followed by https, tcp\. Run 'gatehouse edges --help'/)
  assert.ok(told.length < 10, stderr)
  assert.equal((await cli(['edges'])).stderr.trimEnd().split('\n').length, 2)
})

test('flags of the command itself can stand before its words and between them', async () => {
  const json = await cli.ok(['ip-policies', 'list', '--output', 'json'])
  assert.equal(await cli.ok(['--output', 'json', 'ip-policies', 'list']), json)
  assert.equal(await cli.ok(['ip-policies', '-o', 'json', '--timeout=9', 'list']), json)
  assert.match((await cli(['--profile', 'nowhere', 'caller'])).stderr, /there is no profile 'nowhere'/)
  assert.equal(await cli.ok(['--help', 'api-keys', 'list']), await cli.ok(['api-keys', 'list', '--help']))
  const unknown = await cli(['--color', 'caller'])
  assert.deepEqual([unknown.code, /unknown option '--color'/.test(unknown.stderr)], [2, true])
})

test('every list can be printed as ids, even when its things have names instead', () => {
  for (const operation of operations.filter(({ listField }) => listField))
    assert.ok(outputsOf(operation).includes('ids'), operation.id)
  const named = operations.flatMap((operation) => (idFieldOf(operation) === 'name' ? operation.id : []))
  assert.deepEqual(named, ['edge_nodes.list', 'cells.list'])
})

test('a terminal with room for nothing beside the ids shows each value on its own line', async () => {
  await make(admin, '/ip_policies', { description: 'narrow' })
  const [first, second, third, fourth] = (await onTerminal(['ip-policies', 'list'], '', 34)).split('\n')
  assert.match(first ?? '', /^ipp_\w{26}$/)
  assert.deepEqual([second, third?.slice(0, 14), fourth], ['  DESCRIPTION: narrow', '  CREATED AT: ', ''])
})

test('help is about the command that it was asked for', async () => {
  assert.equal(await cli.ok(['help', 'api-keys']), await cli.ok(['api-keys', '--help']))
  assert.equal(await cli.ok(['help', 'api-keys', 'create']), await cli.ok(['api-keys', 'create', '--help']))
  assert.equal(await cli.ok(['help', 'serve']), await cli.ok(['serve', '--help']))
  assert.doesNotMatch(await cli.ok(['help', 'serve']), /gatehouse bootstrap/)
  assert.match(await cli.ok(['help', 'ip-restrictions', 'release']), /--type api\|dashboard/)
  assert.match(await cli.ok(['help', 'ip-restrictions']), /gatehouse ip-restrictions create/)
  // A few settings and the flags of the command, not all settings of the service.
  const help = await cli.ok(['help', 'rate-limits'])
  assert.match(help, /--requests-per-minute N/)
  assert.ok(help.split('\n').length < 25, help)
})

test('no line of help is wider than 100 columns', async () => {
  const own = [
    'audit-events export',
    'ip-policies prune',
    'rollouts watch',
    'edges https routes list',
    'import ngrok',
    'import',
    'tail',
    'explain',
  ]
  const client = ['state', 'login', 'logout', 'profiles', 'completion', 'auth', 'api', 'upgrade']
  const longest = ['edges https routes create', 'backends static create', 'requests list', 'edges']
  const words = [...serverCommands, 'ip-restrictions release', ...own, ...client, ...longest].filter(
    (each) => each !== 'version',
  )
  const helps = await Promise.all(words.map((each) => cli.ok(['help', ...each.split(' ')])))
  for (const line of helps.join('\n').split('\n')) assert.ok(line.length <= 100, `${line.length}: ${line}`)
})

test('a list shows what people look at first, and --columns what they ask for', async () => {
  for (const [id, columns] of Object.entries(firstColumns)) {
    const operation = operations.find((each) => each.id === id) ?? assert.fail(`there is no ${id}`)
    assert.deepEqual(new Set(columns).difference(new Set(operation.fields)), new Set(), id)
  }
  const head = async (args: string[]) => (await cli.ok(['api-keys', 'list', ...args])).split('\n')[0]?.trim()
  assert.doesNotMatch((await head([])) ?? '', /CREATED BY KEY ID|METADATA/)
  assert.equal(await head(['--columns', 'description,last-used-at']), 'DESCRIPTION  LAST USED AT')
  assert.match((await head(['--columns', 'all'])) ?? '', /^ID .*URI .*CREATED BY KEY ID/)
})

test('times are relative on a terminal and exact elsewhere', async () => {
  assert.match(await cli.ok(['api-keys', 'list']), /\d{4}-\d\d-\d\dT\d\d:\d\d/)
  assert.match(await onTerminal(['api-keys', 'list']), /just now|\d+ (sec|min)\. ago/)
})

test('a header that a route adds is shown with its name', async () => {
  const edge = await make(admin, '/edges/https', { hostports: ['names.example:443'] })
  const route = await make(admin, `/edges/https/${edge.id}/routes`, {
    match: '/',
    match_type: 'path_prefix',
    request_headers: { add: { 'X-Env': 'v2' } },
  })
  assert.match(await cli.ok(['edges', 'https', 'routes', 'get', edge.id, route.id]), /X-Env.*v2/)
})

test('a profile is not saved with a token that the server does not accept', async () => {
  const env = { XDG_CONFIG_HOME: join(testRun.folder, 'nonsense-profiles') }
  const add = (url: string) => cli(['profiles', 'add', 'mine', '--url', url], { input: 'nonsense\n', env })
  const refused = await add(cli.env.GATEHOUSE_URL ?? '')
  assert.equal(refused.code, 4, refused.stderr)
  assert.match(refused.stderr, /does not accept this token. Nothing was saved/)
  const file = join(env.XDG_CONFIG_HOME, 'gatehouse/profiles.json')
  await assert.rejects(readFile(file), /ENOENT/)
  // A server that is not there yet is no reason to refuse.
  const later = await add('http://127.0.0.1:1')
  assert.equal(later.code, 0, later.stderr)
  assert.match(later.stderr, /could not be checked/)
  assert.match(await readFile(file, 'utf8'), /nonsense/)
})

test('an older Node prints which version is needed', async () => {
  const older = `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '20.20.2' } })`
  const child = spawn(process.execPath, ['--import', `data:text/javascript,${older}`, program, 'version'])
  const [output, errors] = await Promise.all([text(child.stdout), text(child.stderr)])
  assert.equal(output, '')
  assert.match(errors, /^gatehouse: needs Node 24\.15 or newer, and this is 20\.20\.2 \(.*\)\. .*\n$/)
})
