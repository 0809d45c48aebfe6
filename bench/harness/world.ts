// What the benches of the API run on: a PostgreSQL, an account with keys, and the programs that are compared.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { ensureTestProgram } from '../../dev/bundle.ts'
import { startPostgres } from '../../dev/postgres.ts'
import { bootstrapAccount } from '../../src/commands/accounts/bootstrap.ts'
import { type DbPool, openPool, run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { toUuid } from '../../src/kernel/ids.ts'
import { createMigratedDatabase } from '../../test/harness/environment.ts'

export type World = Awaited<ReturnType<typeof createWorld>>

type PostgresOptions = NonNullable<Parameters<typeof startPostgres>[0]>

/** `keys`: of the account that is asked, and of as many other accounts together. */
export async function createWorld({ keys, flags = [], onLog }: { keys: number } & PostgresOptions) {
  const postgres = await startPostgres({
    flags: ['-c', 'shared_buffers=512MB', '-c', 'synchronous_commit=on', ...flags],
    ...(onLog && { onLog }),
  })
  const databaseUrl = await createMigratedDatabase(postgres, 'bench')
  const db = openPool(
    { url: databaseUrl, poolSize: 2, connectTimeoutMs: 10_000, statementTimeoutMs: 600_000 },
    () => {},
  )
  const wanted = { accountName: 'bench', adminName: 'Ada', adminEmail: 'ada@example.com' }
  const { accountId, adminId, token } = await bootstrapAccount(db, wanted, 'http://127.0.0.1')
  const account = toUuid(accountId)
  await insertKeys(db, account, toUuid(adminId), keys)
  await db.query({ text: 'analyze' })
  const children: ChildProcess[] = []
  const start = async (args: string[], env: Record<string, string>) => {
    const child = spawn(process.execPath, args, {
      env: { ...process.env, GATEHOUSE_DATABASE_URL: databaseUrl, ...env },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    children.push(child)
    return { pid: child.pid ?? 0, origin: await originOf(child) }
  }
  return {
    db,
    databaseUrl,
    postgres,
    account,
    token,
    /** Without a limit and with its log written to nowhere, as the bare servers are. */
    gatehouse: async (env: Record<string, string> = {}) =>
      start([await ensureTestProgram(), 'serve'], {
        GATEHOUSE_LISTEN: '127.0.0.1:0',
        GATEHOUSE_REQUESTS_PER_MINUTE: '0',
        GATEHOUSE_API_KEYS_PER_ACCOUNT: '1000000000',
        ...env,
      }),
    bare: (way: string) => start([new URL('../bare.ts', import.meta.url).pathname, way], {}),
    async end() {
      for (const child of children) {
        const ended = once(child, 'exit')
        child.kill()
        await ended
      }
      await db.end()
      await postgres.stop()
    },
  }
}

const insertKeys = (db: DbPool, account: string, owner: string, keys: number) =>
  run(
    db,
    sql`
    insert into api_keys (account_id, id, owner_id, owner_kind, token_hash, description, scopes)
    select ${account}::uuid, gen_random_uuid(), ${owner}::uuid, 'user', sha256(n::text::bytea), 'key ' || n, '{*}'
    from generate_series(1, ${keys}) n`,
  )

/** Both say on standard output, as JSON, that they listen. Later output is read and thrown away. */
const originOf = (child: ChildProcess): Promise<string> =>
  new Promise((resolve, reject) => {
    child.once('exit', (code) => reject(new Error(`a server ended with ${code} before it listened`)))
    if (!child.stdout) return reject(new Error('no output'))
    createInterface({ input: child.stdout }).on('line', (line) => {
      if (line.includes('"listening"')) resolve(`http://127.0.0.1:${JSON.parse(line).address.port}`)
    })
  })
