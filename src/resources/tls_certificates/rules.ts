import type { InstallationSettings } from '../../http/route.ts'
import { CertificateFault, type CheckedCertificate, checkCertificate } from '../../kernel/certificate.ts'
import { invalidField, Refusal } from '../../kernel/errors.ts'
import type { SecretsBox } from '../../kernel/secrets_box.ts'

/** Without a key to encrypt private keys with, none is taken. */
export function secretsOf({ secrets }: InstallationSettings): SecretsBox {
  if (secrets) return secrets
  throw new Refusal(
    'ERR_NO_SECRETS_KEY',
    'This installation cannot store private keys: its operator has not set GATEHOUSE_SECRETS_KEY_FILE.',
  )
}

export function checked(chain: string, key: string, now: number): CheckedCertificate {
  try {
    return checkCertificate(chain, key, now)
  } catch (error) {
    // Without the cause: OpenSSL's messages may repeat what they could not read.
    if (error instanceof CertificateFault) throw invalidField(error.field, error.message)
    throw error
  }
}

/** A PATCH replaces both or none. */
export function checkBoth({
  certificate_pem,
  private_key_pem,
}: {
  certificate_pem?: string
  private_key_pem?: string
}) {
  if (certificate_pem !== undefined && private_key_pem === undefined)
    throw invalidField('private_key_pem', 'is required together with certificate_pem')
  if (private_key_pem !== undefined && certificate_pem === undefined)
    throw invalidField('certificate_pem', 'is required together with private_key_pem')
}
