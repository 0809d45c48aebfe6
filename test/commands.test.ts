// The `gatehouse` command as an operator or a script meets it.
import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { after, test } from 'node:test'
import pg from 'pg'
import { freePorts } from '../dev/ports.ts'
import { settings } from '../src/config/server.ts'
import { version } from '../src/config/version.ts'
import { readMigrations } from '../src/db/migrate.ts'
import { gatehouse } from './harness/command.ts'
import { newDatabase, startControlPlane } from './harness/control_plane.ts'
import { loadScaledTimeout } from './harness/load_scaled_timeout.ts'
import { holdsFor, poll } from './harness/poll.ts'
import { testRun } from './harness/test_run.ts'

const emptyDatabase = () => newDatabase('template0')

async function query(url: string, text: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query(text)).rows
  } finally {
    await client.end()
  }
}

test('migrate upgrades an empty database, and then has nothing to do', async () => {
  const env = { GATEHOUSE_DATABASE_URL: await emptyDatabase() }
  const first = await gatehouse(['migrate'], env)
  const names = (await readMigrations()).map(({ name }) => `applied ${name}`)
  assert.deepEqual(first, { code: 0, stdout: [...names, 'The database is up to date.\n'].join('\n'), stderr: '' })
  const second = await gatehouse(['migrate'], env)
  assert.deepEqual(second, { code: 0, stdout: 'The database was already up to date.\n', stderr: '' })
})

test('five processes may migrate one database at once: one does it, all succeed', async () => {
  const url = await emptyDatabase()
  const ended = await Promise.all(
    Array.from({ length: 5 }, () => gatehouse(['migrate'], { GATEHOUSE_DATABASE_URL: url })),
  )
  assert.deepEqual(
    ended.map(({ code, stderr }) => [code, stderr]),
    Array(5).fill([0, '']),
  )
  assert.equal(ended.filter(({ stdout }) => stdout.includes('applied 0001')).length, 1)
  const [{ applied } = {}] = await query(url, 'select count(*)::int as applied from migrations')
  assert.equal(applied, (await readMigrations()).length)
})

test('migrate waits for another migration, even for longer than a request may take', async (t) => {
  const url = await emptyDatabase()
  const other = new pg.Client({ connectionString: url })
  await other.connect()
  // Even if this fails: the lock would keep the other process, and with it the whole run, from ending.
  t.after(() => other.end())
  await other.query('select pg_advisory_lock(7204113001)')
  const migrating = gatehouse(['migrate'], { GATEHOUSE_DATABASE_URL: url, GATEHOUSE_DATABASE_TIMEOUT_MS: '500' })
  const asking =
    "select from pg_stat_activity where datname = current_database() and query like '%pg_try_advisory%' and pid <> pg_backend_pid()"
  await poll(async () => (await other.query(asking)).rows.length)
  // Past the 500 ms of a statement, and the second after which the driver gives up by itself.
  await holdsFor(2_000, async () => (await other.query(asking)).rows.length)
  await other.end()
  assert.deepEqual((({ code, stderr }) => ({ code, stderr }))(await migrating), { code: 0, stderr: '' })
})

test('migrate refuses a database with a different history and leaves it unchanged', async () => {
  const url = await newDatabase()
  await query(url, "update migrations set checksum = 'of another text' where name like '0001%'")
  const { code, stdout, stderr } = await gatehouse(['migrate'], { GATEHOUSE_DATABASE_URL: url })
  assert.equal(code, 1)
  assert.equal(stdout, '')
  assert.match(stderr, /^gatehouse: migration 0001\w*\.sql in the database differs from .* different histories\n$/)
  const [{ checksum } = {}] = await query(url, 'select checksum from migrations order by name limit 1')
  assert.equal(checksum, 'of another text')
})

test('bootstrap prints one JSON line with a key that works; the second time it refuses', async () => {
  const plane = await startControlPlane({ after })
  const env = { GATEHOUSE_DATABASE_URL: plane.databaseUrl }
  const args = ['bootstrap', '--account', 'acme', '--admin-name', 'Ada', '--admin-email', 'ada@acme.example']
  const first = await gatehouse(args, env)
  assert.equal(first.code, 0, first.stderr)
  assert.match(first.stdout, /^\{.*\}\n$/)
  const { account_id, admin_id, token } = JSON.parse(first.stdout)
  const { body } = await plane.clientFor(token)('GET', '/caller')
  assert.deepEqual([body.account_id, body.owner_id, body.role], [account_id, admin_id, 'admin'])
  const second = await gatehouse(args, env)
  assert.deepEqual([second.code, second.stdout], [1, ''])
  assert.match(second.stderr, /already an account named "acme"/)
  const [{ accounts } = {}] = await query(plane.databaseUrl, 'select count(*)::int as accounts from accounts')
  assert.equal(accounts, 1)
})

test('a missing or invalid setting is named, and the command exits with 2', async () => {
  const url = 'postgres://localhost/x'
  for (const [env, told] of [
    [{}, /GATEHOUSE_DATABASE_URL is not set/],
    [{ GATEHOUSE_DATABASE_URL: '' }, /GATEHOUSE_DATABASE_URL is not set/],
    [{ GATEHOUSE_DATABASE_URL: 'nonsense' }, /GATEHOUSE_DATABASE_URL must be a URL such as postgres:/],
    [{ GATEHOUSE_DATABASE_URL_FILE: '/nowhere/secret' }, /GATEHOUSE_DATABASE_URL_FILE is \/nowhere\/secret/],
    [{ GATEHOUSE_DATABASE_URL: url, GATEHOUSE_TCP_PORTS: '1-1024' }, /GATEHOUSE_TCP_PORTS must not contain 443/],
    [
      { GATEHOUSE_DATABASE_URL: url, GATEHOUSE_WILDCARD_SUFFIXES: 'com' },
      /GATEHOUSE_WILDCARD_SUFFIXES must be domains/,
    ],
    [{ GATEHOUSE_DATABASE_URL: url, GATEHOUSE_LISTEN: '8080' }, /GATEHOUSE_LISTEN must be address:port/],
    [{ GATEHOUSE_DATABASE_URL: url, GATEHOUSE_DATABASE_POOL_SIZE: 'many' }, /GATEHOUSE_DATABASE_POOL_SIZE must be/],
    [{ GATEHOUSE_DATABASE_URL: url, GATEHOUSE_TRUSTED_PROXIES: '10.1.2.3/8' }, /GATEHOUSE_TRUSTED_PROXIES has "10/],
    [
      { GATEHOUSE_DATABASE_URL: url, GATEHOUSE_NATS_URL: 'http://nats' },
      /GATEHOUSE_NATS_URL must be URLs such as tls:/,
    ],
    [
      { GATEHOUSE_DATABASE_URL: url, GATEHOUSE_NATS_CA_FILE: '/nowhere/ca.pem' },
      /GATEHOUSE_NATS_CA_FILE is \/nowhere\/ca\.pem, which cannot be read: ENOENT/,
    ],
  ] as [Record<string, string>, RegExp][]) {
    const { code, stdout, stderr } = await gatehouse(['serve'], env)
    assert.deepEqual([code, stdout], [2, ''], stderr)
    assert.match(stderr, told)
    assert.equal(stderr.trim().split('\n').length, 1, 'an operator needs no stack trace')
  }
})

test('row 2: if the database is not set up, a command exits with one line that says what to do', async () => {
  const url = await emptyDatabase()
  const elsewhere = new URL(url)
  elsewhere.pathname = '/not_there'
  for (const [env, expected] of [
    [{ GATEHOUSE_DATABASE_URL: url }, /"signing_keys" does not exist. Run 'gatehouse migrate' first\./],
    [{ GATEHOUSE_DATABASE_URL: elsewhere.href }, /"not_there" does not exist. Create the database/],
  ] as [Record<string, string>, RegExp][]) {
    const { code, stdout, stderr } = await gatehouse(['bootstrap'], env)
    assert.deepEqual([code, stdout], [2, ''], stderr)
    assert.match(stderr, expected)
    assert.equal(stderr.trim().split('\n').length, 1, stderr)
  }
})

test('row 2: serve does not start with a wrong password or a database that does not exist, in one line', async () => {
  const url = await newDatabase()
  const changed = (change: Partial<URL>) => Object.assign(new URL(url), change).href
  for (const [wrong, expected] of [
    [
      changed({ username: 'gatehouse_app', password: 'not-the-password' }),
      /^gatehouse: password authentication failed for user "gatehouse_app"\. Check the user and password/,
    ],
    [changed({ pathname: '/not_there' }), /^gatehouse: database "not_there" does not exist\. Create the database/],
  ] as const) {
    const env = { GATEHOUSE_DATABASE_URL: wrong, GATEHOUSE_LISTEN: '127.0.0.1:0' }
    const { code, stdout, stderr } = await gatehouse(['serve'], env)
    assert.deepEqual([code, stdout], [2, ''], stderr)
    assert.match(stderr, expected)
    assert.equal(stderr.trim().split('\n').length, 1, stderr)
  }
})

test('row 2: an edge node that cannot start says why in one line', async (t) => {
  const taken = createServer()
  await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve))
  t.after(() => new Promise((resolve) => taken.close(resolve)))
  const { port } = taken.address() as { port: number }
  const [first, https] = await freePorts(2)
  const { x } = generateKeyPairSync('ed25519').publicKey.export({ format: 'jwk' })
  const file = join(testRun.folder, 'not-a-folder')
  await writeFile(file, '')
  const certificates = join(testRun.folder, 'no-certificates')
  await mkdir(certificates)
  const env = {
    GATEHOUSE_NATS_URL: 'nats://127.0.0.1:9',
    GATEHOUSE_EDGE_NODE: 'edge-1',
    GATEHOUSE_EDGE_TRUSTED_KEYS: `ed25519:${x}`,
    GATEHOUSE_EDGE_FOLDER: join(testRun.folder, 'edge-that-does-not-start'),
    GATEHOUSE_EDGE_CERTIFICATES: certificates,
    GATEHOUSE_EDGE_TCP_ADDRESSES: '127.0.0.1',
    GATEHOUSE_TCP_PORTS: `${first}-${first}`,
    GATEHOUSE_EDGE_HTTPS_LISTEN: `127.0.0.1:${https}`,
    GATEHOUSE_EDGE_MAX_CONNECTIONS: '100',
    GATEHOUSE_LOG_LEVEL: 'error',
  }
  // 1 where trying again may help: the unit restarts the agent then, and not after 2.
  for (const [wrong, exit, expected] of [
    [
      { GATEHOUSE_EDGE_HTTPS_LISTEN: `127.0.0.1:${port}` },
      1,
      new RegExp(`HAProxy did not start: .*Address already in use.*127\\.0\\.0\\.1:${port}.*gatehouse doctor`),
    ],
    [
      { GATEHOUSE_EDGE_HTTPS_LISTEN: `192.0.2.1:${https}` },
      1,
      /HAProxy did not start: .*Cannot assign requested address.*192\.0\.2\.1/,
    ],
    [
      { GATEHOUSE_EDGE_UPSTREAM_CA_FILE: '/nowhere.pem' },
      2,
      /GATEHOUSE_EDGE_UPSTREAM_CA_FILE is \/nowhere\.pem, which/,
    ],
    [
      { GATEHOUSE_EDGE_FOLDER: join(file, 'edge') },
      2,
      /GATEHOUSE_EDGE_FOLDER is .*, which cannot be written to: ENOTDIR/,
    ],
  ] as [Record<string, string>, number, RegExp][]) {
    const { code, stdout, stderr } = await gatehouse(['edge'], { ...env, ...wrong })
    assert.deepEqual([code, stdout], [exit, ''], stderr)
    assert.match(stderr, expected)
    assert.equal(stderr.trim().split('\n').length, 1, stderr)
  }
})

test('serve exits with 1 when its port is in use, and names it', async (t) => {
  const taken = createServer()
  await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve))
  t.after(() => new Promise((resolve) => taken.close(resolve)))
  const { port } = taken.address() as { port: number }
  const began = Date.now()
  const { code, stderr } = await gatehouse(['serve'], {
    GATEHOUSE_DATABASE_URL: await newDatabase(),
    GATEHOUSE_LISTEN: `127.0.0.1:${port}`,
  })
  assert.equal(code, 1)
  assert.match(stderr, new RegExp(`^gatehouse: .*127.0.0.1:${port}`))
  assert.equal(stderr.trim().split('\n').length, 1, 'an operator needs no stack trace')
  assert.ok(Date.now() - began < loadScaledTimeout(10_000), `it took ${Date.now() - began} ms`)
})

test('a secret can come from a file, with or without a final newline', async () => {
  const file = join(testRun.folder, 'database-url')
  await writeFile(file, `${await newDatabase()}\n`)
  const { code, stdout } = await gatehouse(['migrate'], { GATEHOUSE_DATABASE_URL_FILE: file })
  assert.deepEqual([code, stdout], [0, 'The database was already up to date.\n'])
})

test('--help lists every setting, version prints the version, and an unknown command or option exits with 2', async () => {
  const { code, stdout } = await gatehouse(['serve', '--help'])
  assert.equal(code, 0)
  for (const name of Object.keys(settings)) assert.match(stdout, new RegExp(`^ {2}${name}\\b`, 'm'))
  assert.match(stdout, /GATEHOUSE_DATABASE_URL_FILE/)
  assert.deepEqual(await gatehouse(['version']), { code: 0, stdout: `${version}\n`, stderr: '' })
  assert.match((await gatehouse(['--help'])).stdout, /gatehouse serve/)
  for (const args of [['reserve'], ['serve', '--port', '80'], ['migrate', 'now']])
    assert.equal((await gatehouse(args, { GATEHOUSE_DATABASE_URL: 'postgres://localhost/x' })).code, 2, args.join(' '))
})

test('an address of a name may take longer than the quarter of a second that Node gives it', async () => {
  const printsLimit =
    "import net from 'node:net'; process.on('exit', () => console.log(net.getDefaultAutoSelectFamilyAttemptTimeout()))"
  const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(printsLimit)}`
  const { stdout } = await gatehouse(['version'], { NODE_OPTIONS })
  assert.equal(stdout, `${version}\n2000\n`)
})
