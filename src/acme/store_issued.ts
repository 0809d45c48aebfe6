import { type Db, run } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { transaction } from '../db/transaction.ts'
import type { RecordKey } from '../distribution/records.ts'
import type { CheckedCertificate } from '../kernel/crypto/certificate.ts'
import { newId, toId } from '../kernel/ids.ts'
import { recordChange } from '../operations/audit.ts'
import { writeOutbox } from '../operations/outbox.ts'
import {
  createCertificate,
  findTlsCertificate,
  replaceCertificate,
  type TlsCertificateRow,
} from '../resources/tls_certificates/store.ts'
import type { IssueParts } from './issue.ts'
import { type LeasedOrder, noteOrder } from './order_leases.ts'
import { assertWanted } from './wanted.ts'

/**
 * Stores the certificate, attaches it to its domain, ends the order, notifies nodes and writes the audit event in one
 * transaction, unless the order was lost or withdrawn. A renewed certificate keeps its id, so nodes switch in one step.
 */
export async function storeIssued(
  { db, box, nodes }: Pick<IssueParts, 'db' | 'box' | 'nodes'>,
  leased: LeasedOrder,
  own: TlsCertificateRow | undefined,
  checked: CheckedCertificate,
): Promise<TlsCertificateRow> {
  const account = { accountId: leased.account_id }
  const row = await transaction(db, async (tx) => {
    const domain = await assertWanted(tx, leased)
    const isStillUsed = own !== undefined && domain.certificate_id === own.id
    const kept = isStillUsed ? await findTlsCertificate(tx, account, toId('cert', own.id), true) : undefined
    const created = { source: 'acme' as const, description: null, metadata: null }
    const after = kept
      ? await replaceCertificate(tx, account, kept, { ...checked, source: 'acme' }, box)
      : await createCertificate(tx, account, { ...checked, ...created }, box)
    await run(
      tx,
      sql`
      update reserved_domains set certificate_id = ${after.id}
      where account_id = ${leased.account_id} and id = ${leased.domain_id}`,
    )
    await noteOrder(tx, leased, null, box)
    const records = new Set([after.id, ...(domain.certificate_id ? [domain.certificate_id] : [])])
    await writeOutbox(
      tx,
      leased.account_id,
      [...records].map((id): RecordKey => `certificate.${toId('cert', id)}`),
    )
    await recordChange(tx, originOf(leased, 'server.acme.issue'), {
      resourceId: toId('rd', leased.domain_id),
      before: kept ? shown(kept) : null,
      after: shown(after),
    })
    return after
  })
  nodes.committed()
  return row
}

const originOf = ({ account_id }: LeasedOrder, operation: string) => ({
  accountId: account_id,
  operation,
  operationId: newId('op'),
})
const shown = ({ id, not_after, facts }: TlsCertificateRow) => ({
  certificate_id: toId('cert', id),
  serial_number: facts.serial_number,
  dns_names: facts.subject_alternative_names.dns_names,
  not_after,
})

/** Audits only the first of several equal failures in a row. */
export const recordFailure = (tx: Db, leased: LeasedOrder, { code, message }: { code: string; message: string }) =>
  recordChange(tx, originOf(leased, 'server.acme.fail'), {
    resourceId: toId('rd', leased.domain_id),
    before: leased.error_code === null ? null : { error_code: leased.error_code, msg: leased.error },
    after: { error_code: code, msg: message },
  })
