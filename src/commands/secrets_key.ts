import { readFileSync, statSync } from 'node:fs'
import type { Logger } from 'pino'
import type { Config } from '../config/config.ts'
import type { DbPool } from '../db/pool.ts'
import { ConfigError } from '../kernel/config_error.ts'
import { createSecretsBox, readSecretsKeys, type SecretsBox } from '../kernel/crypto/secrets_box.ts'
import { countClearSigningKeys } from '../publisher/signing_keys.ts'
import { countClearWebhookSecrets } from '../resources/webhook_destinations/secrets.ts'
import { sealedStores } from './sealed_stores.ts'

const name = 'GATEHOUSE_SECRETS_KEY_FILE'

/** Undefined without the setting: data that needs a key is then refused, and everything else works. */
export function openSecretsBox({ GATEHOUSE_SECRETS_KEY_FILE: file }: Config): SecretsBox | undefined {
  if (file === '') return undefined
  let text: string
  try {
    // This file decrypts every private key in a backup.
    const { mode } = statSync(file)
    if (mode & 0o007)
      throw new ConfigError(
        `${name} is ${file}, which everyone on this machine can read or write. Run: chmod 600 ${file}`,
      )
    text = readFileSync(file, 'utf8')
  } catch (cause) {
    if (cause instanceof ConfigError) throw cause
    throw new ConfigError(`${name} is ${file}, which cannot be read: ${(cause as Error).message}`, { cause })
  }
  try {
    return createSecretsBox(readSecretsKeys(text))
  } catch (error) {
    throw new ConfigError(`${name} is ${file}, and ${(error as Error).message}`)
  }
}

export function requireSecretsBox(config: Config): SecretsBox {
  const box = openSecretsBox(config)
  if (!box) throw new ConfigError(`${name} is not set as for gatehouse serve`)
  return box
}

/** `serve` does not do this itself: processes of a version that cannot read the result may still run. */
export const encryptHint = (hasKey: boolean): string =>
  `${hasKey ? 'Run' : `Set ${name}, restart every process, and run`} 'gatehouse secrets rotate' when every process has this version`

/**
 * Warns at the start: a replaced key file should not be discovered only when the first certificate has to be sent again.
 */
export async function warnOfMissingKeys(db: DbPool, box: SecretsBox | undefined, log: Logger): Promise<void> {
  for (const { many, countByKey, withoutKey } of sealedStores) {
    for (const { secrets_key_id, count } of await countByKey(db).catch(() => [])) {
      if (box?.keyIds.includes(secrets_key_id)) continue
      log.error(
        { key_id: secrets_key_id, unreadable: count, keys_in_file: box?.keyIds ?? [] },
        `${many} cannot be read: the key that encrypts them is not in ${name}. ${withoutKey}. Put the key back into the file and restart`,
      )
    }
  }
  const signingKeys = await countClearSigningKeys(db).catch(() => 0)
  if (signingKeys > 0)
    log.warn({ signing_keys: signingKeys }, `signing keys are stored in clear. ${encryptHint(box !== undefined)}`)
  if (box) return
  const inClear = await countClearWebhookSecrets(db).catch(() => 0)
  if (inClear > 0)
    log.warn({ destinations: inClear }, `secrets of webhooks are stored in clear. Set ${name} to have them encrypted`)
}
