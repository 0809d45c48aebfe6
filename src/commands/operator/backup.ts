import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import type { Manifest } from '../../backup/archive.ts'
import { rowsIn } from '../../backup/contents.ts'
import { BackupFault } from '../../backup/fault.ts'
import { makeBackup, nameOf, removeOld } from '../../backup/make.ts'
import { verifyBackup } from '../../backup/restore.ts'
import { recordBackup } from '../../backup/store.ts'
import type { Config } from '../../config/config.ts'
import { version } from '../../config/version.ts'
import { ConfigError } from '../../kernel/config_error.ts'
import { openDatabase, withDatabase } from '../database.ts'

/** Reading a whole table may take longer than a request. */
export const noTimeouts = { statementTimeoutMs: 0, applicationName: 'gatehouse backup' }

/** `backup FILE`, `backup FOLDER [--keep N]` and `backup verify FILE`. */
export function backup(config: Config, args: string[]): Promise<number> {
  return args[0] === 'verify' ? verify(config, args.slice(1)) : make(config, args)
}

async function make(config: Config, args: string[]): Promise<number> {
  const { values, positionals } = parseArgs({ args, allowPositionals: true, options: { keep: { type: 'string' } } })
  const [target, ...more] = positionals
  if (!target || more.length) throw new ConfigError('name one file, or the folder for a new one: gatehouse backup FILE')
  const isFolder = (await stat(target).catch(() => undefined))?.isDirectory() ?? false
  const keep = values.keep === undefined ? undefined : Number(values.keep)
  if (keep !== undefined && (!isFolder || !Number.isInteger(keep) || keep < 1))
    throw new ConfigError('--keep is how many backups to keep, at least 1, and needs a folder instead of a file')
  const ending = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => ending.abort())
  const began = Date.now()
  return reported(() =>
    withDatabase(
      config,
      async (db) => {
        const made = await makeBackup({
          db,
          databaseUrl: config.GATEHOUSE_DATABASE_URL,
          recipientsFile: config.GATEHOUSE_BACKUP_RECIPIENTS_FILE,
          include: config.GATEHOUSE_BACKUP_INCLUDE,
          target: isFolder ? join(target, nameOf(new Date())) : target,
          programVersion: version,
          signal: ending.signal,
        })
        await recordBackup(db, made)
        console.log(`${made.file}: ${summary(made.manifest)}, ${made.bytes} bytes, in ${secondsSince(began)}`)
        const removed = keep === undefined ? [] : await removeOld(target, keep, Date.now())
        for (const name of removed) console.log(`removed ${join(target, name)}`)
        return 0
      },
      noTimeouts,
    ),
  )
}

async function verify(config: Config, args: string[]): Promise<number> {
  const source = sourceIn(parseArgs({ args, allowPositionals: true, options: { identity: { type: 'string' } } }))
  const began = Date.now()
  return reported(() =>
    withDatabase(
      config,
      async (db) => {
        const url = config.GATEHOUSE_DATABASE_URL
        const open = (other: string) => openDatabase({ ...config, GATEHOUSE_DATABASE_URL: other }, () => {}, noTimeouts)
        const manifest = await verifyBackup(source, db, { url, open })
        console.log(
          `${source.file}: ${summary(manifest)}; restored into a scratch database and found equal, in ${secondsSince(began)}`,
        )
        return 0
      },
      noTimeouts,
    ),
  )
}

/** The backup that a command line names, and the private key that decrypts it. */
export function sourceIn({
  values,
  positionals,
}: {
  values: { identity?: string | undefined }
  positionals: string[]
}) {
  const [file, ...more] = positionals
  if (!file || more.length) throw new ConfigError('name one backup')
  if (!values.identity) throw new ConfigError("--identity is required: the file that 'age-keygen' made")
  return { file, identityFile: values.identity }
}

export const summary = (manifest: Manifest): string =>
  `the database at ${manifest.snapshot_at}, ${Object.keys(manifest.tables).length} tables with ${rowsIn(manifest)} rows`

export const secondsSince = (began: number): string => `${((Date.now() - began) / 1_000).toFixed(1)} s`

/** A backup that cannot be made or used is not a bug, so one line explains it. */
export async function reported(work: () => Promise<number>): Promise<number> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof BackupFault)) throw error
    console.error(`gatehouse: ${error.message}`)
    return 1
  }
}
