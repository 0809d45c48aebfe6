import type { InstallationSettings } from '../http/route.ts'
import type { SecretsBox } from '../kernel/crypto/secrets_box.ts'
import { Refusal } from '../kernel/errors.ts'

/** Without an encryption key, no secret is stored. `what` completes 'cannot store …'. */
export function secretsOf({ secrets }: InstallationSettings, what: string): SecretsBox {
  if (secrets) return secrets
  throw new Refusal(
    'ERR_NO_SECRETS_KEY',
    `This installation cannot store ${what}: its operator has not set GATEHOUSE_SECRETS_KEY_FILE.`,
  )
}
