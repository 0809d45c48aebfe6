// What a machine needs to serve the same installation as another one, and how it is transferred.
import { spawnSync } from 'node:child_process'
import { type DbPool, one } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { ConfigError } from '../kernel/config_error.ts'

/** Files in /etc/gatehouse, with their modes. */
export const bundledFiles = {
  'database-url': 0o600,
  'database-owner-url': 0o600,
  'nats-password': 0o600,
  'secrets.key': 0o600,
  'nats-ca.pem': 0o644,
} as const
export type BundledFile = keyof typeof bundledFiles

/** Only the version that wrote it reads it. */
export type Bundle = {
  version: string
  /** PostgreSQL's system identifier, which standbys share. */
  system: string
  settings: Record<string, string>
  files: Partial<Record<BundledFile, string>>
  /** Settings of the other machine that the program does not know, such as those of a proxy. */
  unknown: string[]
}

export const systemOf = async (db: DbPool): Promise<string> =>
  (await one<{ system: string }>(db, sql`select system_identifier::text as system from pg_control_system()`)).system

export const isRecipient = (text: string): boolean => /^age1[0-9a-z]{58}$/.test(text)

/** Resolves to its public half. */
export function newKey(file: string): string {
  age('age-keygen', ['-o', file])
  return publicKey(file)
}
export const publicKey = (file: string): string => age('age-keygen', ['-y', file]).trim()

export const seal = (bundle: Bundle, recipient: string): string =>
  age('age', ['--encrypt', '--armor', '--recipient', recipient], JSON.stringify(bundle))

/** Rejects a bundle that was sealed for another key, or changed on the way. */
export const unseal = (sealed: string, keyFile: string): Bundle =>
  JSON.parse(age('age', ['--decrypt', '--identity', keyFile], sealed))

function age(program: 'age' | 'age-keygen', args: readonly string[], input = ''): string {
  const { stdout, stderr, status, error } = spawnSync(program, args, { input, encoding: 'utf8' })
  if ((error as NodeJS.ErrnoException | undefined)?.code === 'ENOENT')
    throw new ConfigError(`${program} is not installed. On Debian: apt install age`)
  if (error || status !== 0)
    throw new ConfigError(
      `${program} failed: ${
        error?.message ??
        stderr
          .trim()
          .split('\n')[0]
          ?.replace(/^age(-keygen)?: (error: )?/, '')
      }`,
    )
  return stdout
}
