import { sealedStores } from '../commands/sealed_stores.ts'
import { encryptHint, openSecretsBox } from '../commands/secrets_key.ts'
import type { Config } from '../config/config.ts'
import type { DbPool } from '../db/pool.ts'
import { ConfigError } from '../kernel/config_error.ts'
import type { SecretsBox } from '../kernel/crypto/secrets_box.ts'
import { countClearSigningKeys } from '../publisher/signing_keys.ts'
import { type Finding, failed, ok, warning } from './finding.ts'

const setting = 'GATEHOUSE_SECRETS_KEY_FILE'

/** Checks the file: readable, closed to others, and with keys in it. */
export function checkSecretsKey(config: Config): Finding[] {
  const check = 'secrets.key'
  try {
    const box = openSecretsBox(config)
    if (box) return [ok(check, `${config.GATEHOUSE_SECRETS_KEY_FILE} has ${counted(box)}`)]
    const without = `${setting} is not set, so certificates and webhooks cannot be created`
    return [warning(check, without, `Run 'openssl rand -base64 32' into a file of mode 600, and set ${setting} to it`)]
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    const [message = '', hint] = error.message.split('. ', 2)
    return [failed(check, message, hint ?? `Let the user that runs 'gatehouse serve' read it: chown, then chmod 600`)]
  }
}

const counted = ({ keyIds }: SecretsBox) => (keyIds.length === 1 ? 'one key' : `${keyIds.length} keys`)

/**
 * Checks whether the file's keys are those that encrypt the rows of the database, and whether something is in plaintext.
 */
export async function checkStoredSecrets(config: Config, db: DbPool): Promise<Finding[]> {
  const keyIds = readableKeyIds(config)
  const findings: Finding[] = []
  for (const { many, countByKey, withoutKey } of sealedStores)
    for (const { secrets_key_id, count } of await countByKey(db).catch(() => []))
      if (!keyIds.includes(secrets_key_id))
        findings.push(
          failed(
            'secrets.stored',
            `${count} ${many} are encrypted with the key ${secrets_key_id}, which is not in ${setting}. ${withoutKey}`,
            'Put that key back into the file as a further line',
          ),
        )
  const inClear = await countClearSigningKeys(db).catch(() => 0)
  if (inClear > 0)
    findings.push(
      warning(
        'secrets.stored',
        `${inClear === 1 ? 'one signing key is' : `${inClear} signing keys are`} stored in clear: a backup of the database is enough to sign records for edge nodes`,
        encryptHint(config.GATEHOUSE_SECRETS_KEY_FILE !== ''),
      ),
    )
  return findings
}

function readableKeyIds(config: Config): readonly string[] {
  try {
    return openSecretsBox(config)?.keyIds ?? []
  } catch {
    // `secrets.key` reports the reason.
    return []
  }
}
