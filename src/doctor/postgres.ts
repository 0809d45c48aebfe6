import { readdirSync } from 'node:fs'
import type { Config } from '../config/config.ts'
import { version } from '../config/version.ts'
import { setupFault } from '../db/failures.ts'
import { mayDeleteAudit, missingRights } from '../db/grants.ts'
import { migrationFault } from '../db/migrate.ts'
import { type DbPool, many, one, openPool } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { durabilityFaults } from '../http/readiness.ts'
import { nameOf, readDatabaseUrl } from '../kernel/database_url.ts'
import { packageFiles } from '../kernel/package_files.ts'
import { loadNodes } from '../publisher/nodes/node_store.ts'
import { answerTimeoutMs, clockFinding, type Finding, failed, ok, warning } from './finding.ts'
import { checkNewestBackup } from './newest_backup.ts'
import { checkPostgresDisk } from './postgres_disk.ts'
import { checkServers } from './postgresql/servers.ts'
import { checkStoredSecrets } from './secrets.ts'

/** Same version as in docs/operate/health-checks.md. */
const oldestMajor = 15
/** Connections besides the pool: look-ups share two, and webhooks use two. */
const connectionsBesidePool = 4
/** With several servers, each of the two pools uses another connection to ask the primary whether it still is one. */
const connectionsToWatch = 2

export async function checkPostgres(config: Config): Promise<Finding[]> {
  const db = openForDoctor(config)
  try {
    const reached = await connect(config, db)
    if (reached.status === 'failed') return [reached]
    const findings = [reached]
    // Sequential: after a connection fault, the other checks would only repeat it.
    for (const check of [
      checkServer,
      checkDurability,
      (its: Config, pool: DbPool) => checkServers(its, pool, openUrl),
      checkPostgresDisk,
      checkMigrations,
      checkRole,
      checkClock,
      checkStoredSecrets,
      checkNodes,
      checkJoinedNodes,
      checkNewestBackup,
    ])
      findings.push(...(await check(config, db)))
    return findings
  } finally {
    // Not awaited: a dead server does not confirm that a connection has ended.
    void db.end().catch(() => {})
  }
}

export const openForDoctor = ({ GATEHOUSE_DATABASE_URL: url }: Config): DbPool => openUrl(url)
const openUrl = (url: string): DbPool =>
  openPool({ url, poolSize: 1, connectTimeoutMs: answerTimeoutMs, statementTimeoutMs: answerTimeoutMs }, () => {})

/** The server of the URL, without the password. */
function place({ GATEHOUSE_DATABASE_URL: text }: Config): string {
  const { servers, url } = readDatabaseUrl(text)
  return servers.map(nameOf).join(', ') || `${new URL(url).searchParams.get('host') ?? 'localhost'}:5432`
}

export async function connect(config: Config, db: DbPool): Promise<Finding> {
  const check = 'postgresql.connection'
  try {
    const { name, role } = await one<{ name: string; role: string }>(
      db,
      sql`select current_database() as name, current_user as role`,
    )
    return ok(check, `connected to ${place(config)}, database ${name}, as ${role}`)
  } catch (error) {
    const { message, code = '' } = error as { message: string; code?: string }
    const [what = '', hint = ''] = setupFault(error)?.split(/(?<=\.) (?=[A-Z])/) ?? []
    if (hint) return failed(check, what.replace(/\.$/, ''), hint.replace(/\.$/, ''))
    const reason = message || code
    return failed(check, `PostgreSQL does not answer at ${place(config)}: ${reason}`, hintFor(code, reason))
  }
}

function hintFor(code: string, reason: string): string {
  if (code === '53300') return 'Raise max_connections, or lower GATEHOUSE_DATABASE_POOL_SIZE of other processes'
  if (/^(ENOTFOUND|EAI_AGAIN)$/.test(code))
    return 'Correct the host in GATEHOUSE_DATABASE_URL, or the DNS of this machine'
  if (/certificate|SSL|TLS/i.test(reason)) return 'Correct sslmode and sslrootcert in GATEHOUSE_DATABASE_URL'
  return 'Start PostgreSQL, correct host and port in GATEHOUSE_DATABASE_URL, or open the firewall'
}

async function checkServer(config: Config, db: DbPool): Promise<Finding[]> {
  const { version, number, connections } = await one<{ version: string; number: number; connections: number }>(
    db,
    sql`
    select current_setting('server_version') as version, current_setting('server_version_num')::int as number,
      current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int as connections`,
  )
  const isWatched = readDatabaseUrl(config.GATEHOUSE_DATABASE_URL).mustWrite
  const needed = config.GATEHOUSE_DATABASE_POOL_SIZE + connectionsBesidePool + (isWatched ? connectionsToWatch : 0)
  return [
    number >= oldestMajor * 10_000
      ? ok('postgresql.version', version)
      : failed('postgresql.version', `${version} is too old`, `Upgrade PostgreSQL to ${oldestMajor} or newer`),
    needed <= connections
      ? ok('postgresql.connections', `one process uses up to ${needed} of ${connections}`)
      : failed(
          'postgresql.connections',
          `one process uses up to ${needed}, and PostgreSQL allows ${connections}`,
          'Raise max_connections of PostgreSQL, or lower GATEHOUSE_DATABASE_POOL_SIZE',
        ),
  ]
}

async function checkDurability(_config: Config, db: DbPool): Promise<Finding[]> {
  const check = 'postgresql.durability'
  const faults = await durabilityFaults(db)
  return faults.length === 0
    ? [ok(check, 'fsync, full_page_writes and synchronous_commit keep acknowledged changes')]
    : faults.map(({ name, value }) =>
        failed(
          check,
          `PostgreSQL runs with ${name}=${value}, which can lose acknowledged changes`,
          `Set ${name} to on, in postgresql.conf or where 'alter role' or 'alter database' changed it, and reload PostgreSQL`,
        ),
      )
}

async function checkMigrations(_config: Config, db: DbPool): Promise<Finding[]> {
  const check = 'postgresql.migrations'
  const fault = await migrationFault(db).catch((error: { code?: string }) => {
    // `postgresql.role` reports it.
    if (error.code === '42501') return 'unknown'
    throw error
  })
  if (fault === 'unknown') return []
  if (fault === undefined) return [ok(check, `all ${readdirSync(packageFiles.migrations).length} applied`)]
  const [, what = fault] = /^run 'gatehouse migrate': (.*)$/.exec(fault) ?? []
  return [
    failed(
      check,
      what,
      what === fault
        ? 'Check that GATEHOUSE_DATABASE_URL names the database of Gatehouse'
        : "Run 'gatehouse migrate' with this version, as the role that owns the tables",
    ),
  ]
}

async function checkRole(_config: Config, db: DbPool): Promise<Finding[]> {
  const check = 'postgresql.role'
  const { role } = await one<{ role: string }>(db, sql`select current_user as role`)
  const missing = await missingRights(db)
  if (missing === undefined) return []
  const [first, ...others] = missing
  if (first)
    return [
      failed(
        check,
        `${role} lacks ${first.rights.join(', ')} on ${first.table}${others.length ? ` and rights on ${others.length} more tables` : ''}`,
        `Run 'gatehouse migrate' as the owner of the tables, with GATEHOUSE_DATABASE_APP_ROLE=${role}`,
      ),
    ]
  return (await mayDeleteAudit(db))
    ? [
        warning(
          check,
          `${role} can delete audit events`,
          'Serve with a role of its own: docs/operate/database-roles.md',
        ),
      ]
    : [ok(check, `${role} has the rights that 'gatehouse serve' needs, and cannot delete audit events`)]
}

/** An agent whose version differs from the control plane's works, but indicates an unfinished upgrade. */
async function checkNodes(_config: Config, db: DbPool): Promise<Finding[]> {
  const check = 'versions.nodes'
  const nodes = await loadNodes(db).catch(() => [])
  const others = nodes.filter((node) => node.version !== version)
  if (nodes.length === 0) return []
  return others.length === 0
    ? [ok(check, `${nodes.length === 1 ? 'the edge node runs' : `all ${nodes.length} edge nodes run`} ${version}, too`)]
    : [
        warning(
          check,
          `${others.map((node) => `${node.node} runs ${node.version}`).join(', ')}, and this control plane is ${version}`,
          'Finish the upgrade, control plane first: docs/operate/upgrade.md',
        ),
      ]
}

async function checkClock(_config: Config, db: DbPool): Promise<Finding[]> {
  const asked = Date.now()
  const { now } = await one<{ now: number }>(
    db,
    sql`select (extract(epoch from clock_timestamp()) * 1000)::float8 as now`,
  )
  return [clockFinding('clock.postgresql', 'PostgreSQL', asked, now, Date.now())]
}

/** In operator mode, nodes that have only a password cannot connect. */
async function checkJoinedNodes(_: Config, db: DbPool): Promise<Finding[]> {
  const check = 'nats.joined_nodes'
  const waiting = await many<{ name: string }>(
    db,
    sql`
    select name from edge_nodes e
    where exists (select from nats_operator)
      and not exists (select from fleet_nodes f where f.name = e.name and f.revoked_at is null)
    order by name`,
  ).catch(() => [])
  const [{ joined = 0 } = {}] = await many<{ joined: number }>(
    db,
    sql`select count(*) as joined from fleet_nodes where revoked_at is null`,
  ).catch(() => [])
  if (waiting.length > 0)
    return [
      warning(
        check,
        `${waiting.length} of the known edge nodes have not joined: ${waiting.map(({ name }) => name).join(', ')}`,
        "Run 'gatehouse nodes invite' and, on each of them, 'gatehouse-edge join', before NATS runs in operator mode",
      ),
    ]
  return joined === 0 ? [] : [ok(check, `${joined} edge nodes have joined`)]
}
