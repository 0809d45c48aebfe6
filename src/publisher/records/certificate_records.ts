import { type Db, many } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { sealPrivateKey } from '../../distribution/delivery.ts'
import { type CertificateRecord, certificateContext } from '../../distribution/records.ts'
import { servedNames } from '../../kernel/crypto/certificate.ts'
import { UnreadableSecret } from '../../kernel/crypto/unreadable_secret.ts'
import { toId, type Uuid } from '../../kernel/ids.ts'
import { openPrivateKey } from '../../resources/tls_certificates/store.ts'
import { currentDeliveryKey } from '../nodes/node_keys.ts'
import { type Changed, type Compiler, unavailable, type Values, wanted } from './changed.ts'

type CertificateColumns = {
  account_id: Uuid
  id: Uuid
  certificate_pem: string
  private_key: Buffer
  secrets_key_id: string
  dns_names: string[]
  /** Domains that use the certificate and that the account holds. */
  domains: string[]
  /** Names under those domains that other accounts hold. */
  others: string[]
}

const certificateRows = (db: Db, changed: readonly Changed[]) =>
  many<CertificateColumns>(
    db,
    sql`
    with used as materialized (
      select d.account_id, d.certificate_id, d.domain
      from ${wanted(changed)}
        join reserved_domains d on d.account_id = wanted.account_id and d.certificate_id = wanted.id
      where d.status in ('verified', 'failing', 'assigned')
    ),
    held as (
      select account_id, certificate_id as id, array_agg(domain order by domain) as domains from used group by 1, 2
    ),
    foreign_below as (
      select u.account_id, u.certificate_id as id, array_agg(distinct o.domain) as others
      from used u join reserved_domains o
        on reverse(o.domain) collate "C" > reverse(u.domain) || '.' and reverse(o.domain) collate "C" < reverse(u.domain) || '/'
          and o.account_id <> u.account_id and o.status in ('verified', 'failing', 'assigned')
      group by 1, 2
    )
    select c.account_id, c.id, c.certificate_pem, c.private_key, c.secrets_key_id,
      array(select jsonb_array_elements_text(c.facts -> 'subject_alternative_names' -> 'dns_names')) as dns_names,
      held.domains, coalesce(foreign_below.others, '{}') as others
    from held join tls_certificates c using (account_id, id) left join foreign_below using (account_id, id)`,
  )

/** Compiles only certificates that a held domain uses. Nodes keep a certificate that cannot be decrypted now. */
export const compileCertificates: Compiler = async (db, changed, _now, { cell, secrets, onUnavailable }) => {
  const values: Values = new Map()
  if (!secrets) {
    for (const { id } of await certificateRows(db, changed)) {
      values.set(id, unavailable)
      onUnavailable?.(`certificate.${toId('cert', id)}`, 'GATEHOUSE_SECRETS_KEY_FILE is not set')
    }
    return values
  }
  const delivery = await currentDeliveryKey(db, cell, secrets)
  for (const row of await certificateRows(db, changed)) {
    const { names, except } = servedNames(row.dns_names, row.domains, row.others)
    if (names.length === 0) continue
    const [id, account] = [toId('cert', row.id), toId('ac', row.account_id)]
    try {
      const value: CertificateRecord = {
        account,
        names,
        ...(except.length > 0 && { except }),
        chain: row.certificate_pem,
        key: sealPrivateKey(delivery, certificateContext(id, account), openPrivateKey(row, secrets)),
        key_id: delivery.id,
      }
      values.set(row.id, { value })
    } catch (error) {
      if (!(error instanceof UnreadableSecret)) throw error
      values.set(row.id, unavailable)
      onUnavailable?.(`certificate.${id}`, error.message)
    }
  }
  return values
}
