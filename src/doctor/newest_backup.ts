import { newestBackup } from '../backup/store.ts'
import type { Config } from '../config/config.ts'
import type { DbPool } from '../db/pool.ts'
import { type Finding, ok, warning } from './finding.ts'

const hourMs = 60 * 60 * 1_000
/** Same limit as in the alert rule: a daily backup may fail once. */
const maxAgeHours = 48

/** Only a warning, because PostgreSQL may be backed up by other means. */
export async function checkNewestBackup(_config: Config, db: DbPool): Promise<Finding[]> {
  const check = 'backup.newest'
  const hint = 'See docs/operate/backup-and-restore.md'
  // The table may not be migrated yet, which `postgresql.migrations` reports.
  const newest = await newestBackup(db).catch(() => 'unknown' as const)
  if (newest === 'unknown') return []
  if (!newest) return [warning(check, "'gatehouse backup' has made no backup of this database", hint)]
  const hours = Math.floor((Date.now() - newest.getTime()) / hourMs)
  return hours >= maxAgeHours
    ? [warning(check, `the newest backup is ${hours} hours old`, hint)]
    : [ok(check, `the newest backup is less than ${hours + 1} ${hours === 0 ? 'hour' : 'hours'} old`)]
}
