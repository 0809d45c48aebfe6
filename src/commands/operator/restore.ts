import { parseArgs } from 'node:util'
import { type Manifest, readArchive } from '../../backup/archive.ts'
import { BackupFault } from '../../backup/fault.ts'
import { extractFiles, isEmpty, missingRoles, restoreDatabase } from '../../backup/restore.ts'
import type { Config } from '../../config/config.ts'
import { readMigrations } from '../../db/migrate.ts'
import type { DbPool } from '../../db/pool.ts'
import { withDatabase } from '../database.ts'
import { afterRestore } from './after_restore.ts'
import { noTimeouts, reported, secondsSince, sourceIn, summary } from './backup.ts'
import { migrateCommand } from './migrate.ts'

const options = {
  identity: { type: 'string' },
  replace: { type: 'boolean', default: false },
  'files-into': { type: 'string' },
  'only-files': { type: 'boolean', default: false },
} as const

/** Checks the backup, loads it, compares the result, migrates it to this version, and lets edge nodes follow it. */
export function restore(config: () => Config, args: string[]): Promise<number> {
  const parsed = parseArgs({ args, allowPositionals: true, options })
  const source = sourceIn(parsed)
  const { replace, 'files-into': folder } = parsed.values
  return reported(async () => {
    // Before any change: everything can be decrypted, and matches the manifest.
    const manifest = await readArchive(source.file, source.identityFile)
    console.log(`${source.file} is whole: ${summary(manifest)}, made by Gatehouse ${manifest.program_version}`)
    if (folder) {
      await extractFiles(source, folder)
      console.log(`wrote ${Object.keys(manifest.files).length} files into ${folder}`)
    }
    if (parsed.values['only-files']) return 0
    await refuseNewer(manifest)
    const began = Date.now()
    const settings = config()
    await withDatabase(
      settings,
      async (db) => {
        await refuseUnfit(db, manifest, replace)
        await restoreDatabase(source, db, settings.GATEHOUSE_DATABASE_URL, manifest)
      },
      noTimeouts,
    )
    console.log(`restored it, and found the database equal, in ${secondsSince(began)}`)
    return (await migrateCommand(settings)) || (await afterRestore(settings))
  })
}

/** An older program would serve a database whose schema it does not know. */
async function refuseNewer({ migrations, program_version }: Manifest): Promise<void> {
  const known = (await readMigrations()).map(({ name }) => name)
  if (migrations.some((name) => !known.includes(name)))
    throw new BackupFault(
      `the backup was made by Gatehouse ${program_version}. Restore it with that version or a newer one`,
    )
}

async function refuseUnfit(db: DbPool, manifest: Manifest, replace: boolean): Promise<void> {
  if (!replace && !(await isEmpty(db)))
    throw new BackupFault(
      "the database is not empty. Stop every 'gatehouse serve', and add --replace to delete what is in it",
    )
  const [missing, ...others] = await missingRoles(db, manifest)
  if (missing)
    throw new BackupFault(
      `the backup gives rights to the role ${[missing, ...others].join(', ')}, which PostgreSQL does not have here. Create it: create role ${missing} login password '…'`,
    )
}
