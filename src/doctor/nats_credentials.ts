import { readFileSync } from 'node:fs'
import { openSecretsBox } from '../commands/secrets_key.ts'
import type { Config, EdgeConfig } from '../config/config.ts'
import { readCredentials } from '../distribution/credentials_file.ts'
import type { NatsCredentials } from '../distribution/nats_connection.ts'
import { controlPlaneUser } from '../fleet/nats_accounts.ts'
import { loadNatsOperator } from '../fleet/operator_store.ts'
import { openForDoctor } from './postgres.ts'

/**
 * The node's credentials from joining. Undefined if it has a password, or if the file is unusable, and NATS then refuses
 * it.
 */
export function nodeCredentials({ GATEHOUSE_NATS_CREDENTIALS_FILE: file }: EdgeConfig): NatsCredentials | undefined {
  try {
    return file === '' ? undefined : readCredentials(readFileSync(file, 'utf8'))
  } catch {
    return undefined
  }
}

/** The credentials with which `serve` would connect. Undefined if it uses a password. */
export async function controlPlaneCredentials(config: Config): Promise<NatsCredentials | undefined> {
  const db = openForDoctor(config)
  try {
    const operator = await loadNatsOperator(db, openSecretsBox(config))
    return operator && controlPlaneUser(operator, Date.now())
  } catch {
    // The checks of PostgreSQL and of the secrets report the reason.
    return undefined
  } finally {
    void db.end().catch(() => {})
  }
}
