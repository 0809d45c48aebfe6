import { countAcmeKeys, resealAcmeKeys } from '../acme/account_key.ts'
import type { Db } from '../db/pool.ts'
import { countNatsOperatorsBySecretsKey, resealNatsOperator } from '../fleet/operator_store.ts'
import type { SecretsBox } from '../kernel/crypto/secrets_box.ts'
import type { Uuid } from '../kernel/ids.ts'
import { countSigningKeysBySecretsKey, resealSigningKeys } from '../publisher/signing_keys.ts'
import { countBySecretsKey, resealBatch } from '../resources/tls_certificates/store.ts'
import { countWebhookSecretsByKey, resealWebhookSecrets } from '../resources/webhook_destinations/secrets.ts'

type Place = { account_id: Uuid; id: Uuid }
type Batch = { last: Place | undefined; resealed: number; unreadable: { id: string; reason: string }[] }

/** Data that the keys of GATEHOUSE_SECRETS_KEY_FILE encrypt. */
type SealedStore = {
  /** In messages: 'the private key of cert_…', 'private keys: 3'. */
  one: string
  many: string
  countByKey: (db: Db) => Promise<{ secrets_key_id: string; count: number }[]>
  /** Encrypts the next rows with the current key. */
  reseal: (tx: Db, box: SecretsBox, after: Place) => Promise<Batch>
  /** Consequence of a missing key, for the operator. */
  withoutKey: string
}

export const sealedStores: readonly SealedStore[] = [
  {
    one: 'private key',
    many: 'private keys',
    countByKey: countBySecretsKey,
    reseal: resealBatch,
    withoutKey: 'Edge nodes keep what they have',
  },
  {
    one: 'secret',
    many: 'webhook secrets',
    countByKey: countWebhookSecretsByKey,
    reseal: (tx, box, after) => resealWebhookSecrets(tx, box, after, { others: true }),
    withoutKey: 'Events of these destinations wait',
  },
  {
    one: 'ACME account key',
    many: 'ACME keys',
    countByKey: countAcmeKeys,
    reseal: resealAcmeKeys,
    withoutKey: 'No certificate is ordered or renewed',
  },
  {
    one: 'private signing key',
    many: 'signing keys',
    countByKey: countSigningKeysBySecretsKey,
    reseal: resealSigningKeys,
    withoutKey: 'No change is published, and edge nodes keep what they have',
  },
  {
    one: 'key set',
    many: 'NATS key sets',
    countByKey: countNatsOperatorsBySecretsKey,
    reseal: resealNatsOperator,
    withoutKey: 'The control plane cannot connect to NATS in operator mode, and no node can join',
  },
]
