import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFile, mkdir, readdir, readFile, stat, symlink, truncate, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, test } from 'node:test'
import pg from 'pg'
import { appRole, asAppRole } from '../../dev/app_role.ts'
import { gatehouse } from '../harness/command.ts'
import { newDatabase, startControlPlane } from '../harness/control_plane.ts'
import { poll } from '../harness/poll.ts'
import { backupFolder, run } from './harness.ts'

const { folder, identity, at, command } = await backupFolder({ after })
const plane = await startControlPlane({ after })
const admin = await plane.newAccount()
for (let count = 0; count < 20; count++) await admin('POST', '/api_keys', { description: `key ${count}` })
const url = plane.databaseUrl
const file = at('good.age')
const made = await command(['backup', file], url, { GATEHOUSE_BACKUP_INCLUDE: await someFiles() })
assert.equal(made.code, 0, made.stderr)

async function someFiles(): Promise<string> {
  const settings = at('etc')
  await mkdir(join(settings, 'certificates'), { recursive: true })
  await writeFile(join(settings, 'secrets.key'), 'the key\n', { mode: 0o600 })
  await writeFile(join(settings, 'certificates', 'one.pem'), 'x'.repeat(1_000))
  await symlink('/etc/passwd', join(settings, 'link'))
  return `${settings},/etc/there-is-no-such-folder`
}
async function query<Row>(databaseUrl: string, text: string): Promise<Row[]> {
  const client = new pg.Client({ connectionString: databaseUrl })
  await client.connect()
  try {
    return (await client.query(text)).rows
  } finally {
    await client.end()
  }
}
const emptyDatabase = () => newDatabase('template0')
const partials = async (where = folder) => (await readdir(where)).filter((name) => name.startsWith('.partial'))
const keysIn = (databaseUrl: string) => query(databaseUrl, 'select * from api_keys order by id')

test('a backup is one file for its owner only, and its age is in the metrics and on the screen of status', async () => {
  const { mode, size } = await stat(file)
  assert.equal(mode & 0o777, 0o600)
  assert.match(made.stdout, new RegExp(`^${file}: the database at .*, ${size} bytes, in `))
  const [recorded] = await query<{ file: string; bytes: string }>(url, 'select file, bytes from backups')
  assert.deepEqual([recorded?.file, Number(recorded?.bytes)], [file, size])
  assert.deepEqual(await partials(), [])
  const { origin } = await plane.startProcess()
  await poll(async () =>
    /^gatehouse_backup_timestamp_seconds [1-9]/m.test(await (await fetch(`${origin}/metrics`)).text()),
  )
  const { stdout } = await gatehouse(['status'], { GATEHOUSE_URL: origin, GATEHOUSE_API_KEY: admin.token })
  assert.match(stdout, /^backup +up +the newest is of 2\d{3}-/m)
  // The control plane's own role can read about backups, and cannot pretend that there are any.
  assert.equal((await query(asAppRole(url), 'select from backups')).length, 1)
  await assert.rejects(query(asAppRole(url), 'delete from backups'), /permission denied/)
})

test('a backup is verified in a scratch database, which is gone afterwards', async () => {
  const { code, stdout, stderr } = await command(['backup', 'verify', file, '--identity', identity], url)
  assert.equal(code, 0, stderr)
  assert.match(stdout, /restored into a scratch database and found equal/)
  assert.deepEqual(await query(url, "select datname from pg_database where datname like 'gatehouse_verify_%'"), [])
})

test('a backup of a database in use is verified, although sequences go on while it is made', async () => {
  const database = await newDatabase()
  // So that the digests take longer than the dump, which then has older values of the sequences than are read at the end.
  await query(database, "create table filler as select id, repeat('x', 200) from generate_series(1, 300000) as id")
  const busy = new pg.Client({ connectionString: database })
  await busy.connect()
  let isMade = false
  const use = async () => {
    while (!isMade) await busy.query("select nextval('account_usage_id_seq')")
  }
  const using = use()
  const { code, stderr } = await command(['backup', at('busy.age')], database)
  isMade = true
  await using
  await busy.end()
  assert.equal(code, 0, stderr)
  const verified = await command(['backup', 'verify', at('busy.age'), '--identity', identity], database)
  assert.equal(verified.code, 0, verified.stderr)
})

test('a restore into an empty database brings back every row and right, and numbers that edge nodes accept', async () => {
  const database = await emptyDatabase()
  const { code, stdout, stderr } = await command(['restore', file, '--identity', identity], database)
  assert.equal(code, 0, stderr)
  assert.deepEqual(await keysIn(database), await keysIn(url))
  assert.match(stderr, /revoked after the backup is active again/)
  const { generation, generation_before } = JSON.parse(stdout.trim().split('\n').at(-1) ?? '')
  assert.equal(generation - generation_before, 1_000_000_000)
  // Served with the rights of the restored role, without another migration.
  const { processes, clientFor } = await startControlPlane({ after }, { databaseUrl: asAppRole(database) })
  const { status, body } = await clientFor(admin.token)('GET', '/api_keys')
  assert.deepEqual([status, body.keys.length], [200, 21])
  assert.equal((await fetch(`${processes[0]?.origin}/readyz`)).status, 200)
})

test('a database that is not empty is refused, and with --replace becomes what the backup has', async () => {
  const database = await newDatabase()
  await query(
    database,
    "create table of_another_program (id int); insert into accounts (id, name) select gen_random_uuid(), 'other'",
  )
  const refused = await command(['restore', file, '--identity', identity], database)
  assert.equal(refused.code, 1)
  assert.match(refused.stderr, /the database is not empty\. .*--replace/)
  assert.equal((await query(database, "select from accounts where name = 'other'")).length, 1)
  const { code, stderr } = await command(['restore', file, '--identity', identity, '--replace'], database)
  assert.equal(code, 0, stderr)
  assert.deepEqual(await keysIn(database), await keysIn(url))
  assert.deepEqual(await query(database, "select from pg_class where relname = 'of_another_program'"), [])
})

test('a restore that fails leaves the database as it was', async () => {
  const database = await newDatabase()
  await query(database, "insert into accounts (id, name) select gen_random_uuid(), 'kept'")
  const broken = at('no-pg-restore')
  await mkdir(broken, { recursive: true })
  // It fails after it has created tables: the last statement cannot be run.
  await writeFile(
    join(broken, 'pg_restore'),
    '#!/bin/sh\ncat >/dev/null\necho "pg_restore: error: out of luck" >&2\nexit 1\n',
    { mode: 0o755 },
  )
  const { code, stderr } = await command(['restore', file, '--identity', identity, '--replace'], database, {
    PATH: `${broken}:${process.env.PATH}`,
  })
  assert.equal(code, 1)
  assert.match(stderr, /pg_restore failed: .*out of luck/)
  assert.equal((await query(database, "select from accounts where name = 'kept'")).length, 1)
})

for (const [what, damage] of [
  ['truncated by a byte', async (copy: string) => truncate(copy, (await stat(copy)).size - 1)],
  // At the end of a chunk of age's stream, where what is left could look complete.
  ['truncated at the end of a chunk', async (copy: string) => truncate(copy, (await stat(copy)).size & ~0xffff)],
  ['with one bit changed', flipBit],
] as const)
  test(`a backup that is ${what} is refused before anything is changed`, async () => {
    const copy = at(`damaged-${what.length}.age`)
    await copyFile(file, copy)
    await damage(copy)
    const database = await emptyDatabase()
    for (const args of [
      ['restore', copy],
      ['backup', 'verify', copy],
    ]) {
      const { code, stderr } = await command([...args, '--identity', identity], database)
      assert.equal(code, 1, stderr)
      assert.match(stderr, /^gatehouse: age failed: /)
    }
    assert.deepEqual(await query(database, "select from pg_class where relname = 'accounts'"), [])
  })

async function flipBit(copy: string): Promise<void> {
  const bytes = await readFile(copy)
  const middle = Math.floor(bytes.length / 2)
  bytes.writeUInt8(bytes.readUInt8(middle) ^ 1, middle)
  await writeFile(copy, bytes)
}

test('the files of a backup can be had without a database, and a key of another pair opens nothing', async () => {
  const into = at('extracted')
  const { code, stderr } = await command(
    ['restore', file, '--identity', identity, '--files-into', into, '--only-files'],
    '',
  )
  assert.equal(code, 0, stderr)
  const settings = join(into, folder, 'etc')
  assert.deepEqual((await readdir(settings, { recursive: true })).sort(), [
    'certificates',
    'certificates/one.pem',
    'secrets.key',
  ])
  assert.equal(await readFile(join(settings, 'secrets.key'), 'utf8'), 'the key\n')
  assert.equal((await stat(join(settings, 'secrets.key'))).mode & 0o777, 0o600)
  const other = await backupFolder({ after })
  const wrong = await command(['backup', 'verify', file, '--identity', other.identity], url)
  assert.equal(wrong.code, 1)
  assert.match(wrong.stderr, /age failed: .*no identity matched/)
})

test('without Gatehouse, age, tar and pg_restore are enough', async () => {
  const [by, database] = [at('by-hand'), await emptyDatabase()]
  await mkdir(by)
  const script = `age --decrypt --identity "$1" "$2" | tar --extract && cat database.dump.* |
    pg_restore --no-owner --exit-on-error --dbname "$3"`
  await run('bash', ['-euo', 'pipefail', '-c', script, 'sh', identity, file, database], { cwd: by })
  assert.deepEqual(await keysIn(database), await keysIn(url))
  assert.match(await readFile(join(by, 'README'), 'utf8'), /cat database\.dump\.\* \| pg_restore/)
})

test('a backup is of one moment, however much is written meanwhile', async (t) => {
  const database = await newDatabase()
  await query(database, 'create table pairs (one int, other int)')
  const ending = new AbortController()
  t.after(() => ending.abort())
  // Each transaction keeps the sums equal; a backup of two moments would not.
  const writing = (async () => {
    for (let count = 0; !ending.signal.aborted; count++)
      await query(
        database,
        `insert into pairs select ${count}, ${count}; update pairs set one = one + 1, other = other + 1`,
      )
    return true
  })()
  await poll(async () => (await query(database, 'select from pairs')).length > 5)
  const { code, stderr } = await command(['backup', at('moment.age')], database)
  ending.abort()
  assert.ok(await writing)
  assert.equal(code, 0, stderr)
  const restored = await emptyDatabase()
  const verified = await command(['restore', at('moment.age'), '--identity', identity], restored)
  assert.equal(verified.code, 0, verified.stderr)
  const [sums] = await query<{ rows: string; equal: boolean }>(
    restored,
    'select count(*) as rows, sum(one) = sum(other) as equal from pairs',
  )
  assert.ok(Number(sums?.rows) > 5 && sums?.equal)
})

test('on a full disk there is a message, exit code 1, and no file', async (t) => {
  const small = at('small')
  await mkdir(small)
  try {
    await run('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'none', small])
  } catch {
    return t.skip('a file system cannot be mounted here')
  }
  t.after(() => run('umount', [small]))
  const before = await query(url, 'select from backups')
  const { code, stdout, stderr } = await command(['backup', small], url)
  assert.deepEqual([code, stdout], [1, ''])
  assert.equal(stderr, `gatehouse: cannot write to ${small}: no space left on the disk\n`)
  assert.deepEqual(await readdir(small), [])
  assert.deepEqual(await query(url, 'select from backups'), before)
})

test('no password is in a command line; a backup that is ended leaves nothing, and one that is killed nothing that looks like a backup', async () => {
  const slow = at('slow')
  await mkdir(slow)
  await writeFile(
    join(slow, 'pg_dump'),
    `#!/bin/sh\necho "$@" >${slow}/arguments\ncat "$PGPASSFILE" >${slow}/password\necho started\nexec sleep 60\n`,
    { mode: 0o755 },
  )
  const into = at('into')
  await mkdir(into)
  const start = async () => {
    const child = spawn(process.execPath, [process.env.GATEHOUSE_TEST_PROGRAM ?? '', 'backup', into], {
      env: {
        ...process.env,
        PATH: `${slow}:${process.env.PATH}`,
        GATEHOUSE_DATABASE_URL: url,
        GATEHOUSE_BACKUP_RECIPIENTS_FILE: at('recipients'),
        GATEHOUSE_BACKUP_INCLUDE: 'none',
      },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    await poll(async () => (await partials(into)).length === 1)
    return child
  }
  const ended = await start()
  // Everyone on the machine can read the command line.
  const saved = await poll(() => readFile(join(slow, 'password'), 'utf8').catch(() => ''), Boolean)
  assert.equal(saved, `*:*:*:*:${new URL(url).password}\n`)
  const typed = await readFile(join(slow, 'arguments'), 'utf8')
  assert.match(typed, /--dbname=postgres:\/\/postgres@127/)
  const exit = once(ended, 'exit')
  ended.kill('SIGTERM')
  assert.deepEqual(await exit, [1, null])
  assert.deepEqual(await readdir(into), [])
  const killed = await start()
  killed.kill('SIGKILL')
  await once(killed, 'exit')
  assert.equal((await readdir(into)).length, 1)
  assert.equal((await partials(into)).length, 1)

  // A later backup removes it when it is a day old, and keeps as many as it was told to.
  const [left = ''] = await partials(into)
  for (const day of ['01', '02', '03']) await writeFile(join(into, `gatehouse-202601${day}T000000Z.age`), 'old')
  await writeFile(join(into, 'other.age'), '')
  await utimes(join(into, left), 0, 0)
  const { code, stdout, stderr } = await command(['backup', into, '--keep', '2'], url)
  assert.equal(code, 0, stderr)
  const names = (await readdir(into)).sort()
  assert.equal(names.length, 3, names.join())
  assert.deepEqual([names[0], names[2]], ['gatehouse-20260103T000000Z.age', 'other.age'])
  assert.match(stdout, /removed .*gatehouse-20260101T000000Z\.age\nremoved .*20260102/)
})

test('what keeps a backup from being made is said in one line, and an existing file is never overwritten', async () => {
  const fails = async (args: string[], pattern: RegExp, env: Record<string, string> = {}, expected = 1) => {
    const { code, stderr } = await command(args, url, env)
    assert.equal(code, expected, stderr)
    assert.match(stderr, pattern)
    assert.equal(stderr.trim().split('\n').length, 1, stderr)
  }
  const before = await readFile(file)
  await fails(['backup', file], /good\.age exists already/)
  assert.ok(before.equals(await readFile(file)))
  await fails(['backup', at('x.age')], /does not exist\. Put the public key into it/, {
    GATEHOUSE_BACKUP_RECIPIENTS_FILE: at('none'),
  })
  await writeFile(at('bad'), 'not a key\n')
  await fails(['backup', at('x.age')], /age failed: .*malformed recipient/, {
    GATEHOUSE_BACKUP_RECIPIENTS_FILE: at('bad'),
  })
  await fails(['backup', at('x.age')], /age is not installed\. On Debian: apt install age/, { PATH: '/nowhere' })
  await fails(['backup', join(at('nowhere'), 'x.age')], /there is no such file or folder/)
  await fails(['backup'], /name one file/, {}, 2)
  await fails(['backup', at('x.age'), '--keep', '3'], /--keep/, {}, 2)
  await fails(['restore', file], /--identity is required/, {}, 2)
  assert.deepEqual(await partials(), [])
})

test('a role that may not create databases, and one that is missing, are named', async () => {
  const { code, stderr } = await command(['backup', 'verify', file, '--identity', identity], asAppRole(url))
  assert.equal(code, 1)
  assert.match(stderr, new RegExp(`the role ${appRole} may not create the database .* alter role ${appRole} createdb`))
})
