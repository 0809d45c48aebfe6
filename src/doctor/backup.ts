import { existsSync } from 'node:fs'
import { versionOf } from '../backup/programs.ts'
import { type Config, readConfig } from '../config/config.ts'
import { settings } from '../config/server.ts'
import { one } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { bounded, type Finding, failed, isUsable, ok, warning } from './finding.ts'
import { checkWritableFolder } from './folders.ts'
import { openForDoctor } from './postgres.ts'
import type { Service } from './services.ts'
import { checkSettings } from './settings.ts'

export function checkBackup(service: Service): Promise<Finding[]>[] {
  const { environment, stateFolder, account } = service
  const read = checkSettings(settings, environment)
  if (!isUsable(read)) return [Promise.resolve(read)]
  const config = readConfig(environment)
  return [
    Promise.resolve(checkRecipients(config)),
    bounded('backup.programs', checkPrograms(config)),
    stateFolder
      ? checkWritableFolder({ check: 'backup.folder', setting: 'StateDirectory', path: stateFolder, account })
      : Promise.resolve([]),
  ]
}

function checkRecipients({ GATEHOUSE_BACKUP_RECIPIENTS_FILE: file }: Config): Finding[] {
  const check = 'backup.recipients'
  return existsSync(file)
    ? [ok(check, `backups are encrypted to the keys in ${file}`)]
    : [warning(check, `${file} does not exist, so no backups are made`, 'See docs/operate/backup-and-restore.md')]
}

/** pg_dump cannot read a server that is newer than itself. */
async function checkPrograms(config: Config): Promise<Finding[]> {
  const check = 'backup.programs'
  const [age, pgDump] = await Promise.all([versionOf('age'), versionOf('pg_dump')])
  if (!age) return [failed(check, 'age is not installed', 'Run: apt install age')]
  if (!pgDump) return [failed(check, 'pg_dump is not installed', 'Run: apt install postgresql-client')]
  const db = openForDoctor(config)
  try {
    const { major } = await one<{ major: number }>(
      db,
      sql`select current_setting('server_version_num')::int / 10000 as major`,
    )
    const [, own = '0'] = /(\d+)/.exec(pgDump) ?? []
    return Number(own) >= major
      ? [ok(check, `age ${age}, ${pgDump}`)]
      : [
          failed(
            check,
            `${pgDump} cannot read PostgreSQL ${major}`,
            `Install the client of PostgreSQL ${major} or newer`,
          ),
        ]
  } finally {
    void db.end().catch(() => {})
  }
}
