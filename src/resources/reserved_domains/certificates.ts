import type { Db } from '../../db/pool.ts'
import type { DomainService } from '../../http/domains.ts'
import { invalidField } from '../../kernel/errors.ts'
import { type Id, toId } from '../../kernel/ids.ts'
import { dropOrder, planOrder } from './order_plans.ts'
import type { ManagementPolicy } from './schema.ts'
import {
  type Account,
  attachCertificate,
  findReservedDomain,
  type ReservedDomainRow,
  setManagementPolicy,
} from './store.ts'

type Sent = { certificate_id?: Id<'cert'> | null; certificate_management_policy?: Partial<ManagementPolicy> | null }

/** Applies the certificate fields of a create or PATCH: an uploaded certificate, or a managed one. */
export async function setCertificate(
  tx: Db,
  account: Account,
  { managesCertificates }: Pick<DomainService, 'managesCertificates'>,
  before: ReservedDomainRow,
  { certificate_id: certificate, certificate_management_policy: policy }: Sent,
): Promise<ReservedDomainRow> {
  if (certificate === undefined && policy === undefined) return before
  const isManaged = policy === undefined ? before.certificate_authority !== null : policy !== null
  if (certificate !== undefined && isManaged)
    throw invalidField(
      'certificate_id',
      'cannot be set while the certificate is managed. Set certificate_management_policy to null as well',
    )
  if (policy && !managesCertificates)
    throw invalidField(
      'certificate_management_policy',
      'cannot be used: the operator of this installation has not set GATEHOUSE_ACME_DIRECTORY',
    )
  if (certificate !== undefined) await attachCertificate(tx, account, before, certificate)
  if (policy === null) {
    await setManagementPolicy(tx, account, before.id, null)
    await dropOrder(tx, { account_id: account.accountId, domain_id: before.id })
  }
  if (policy) {
    const { authority = 'acme', private_key_type = 'ecdsa' } = policy
    await setManagementPolicy(tx, account, before.id, { authority, private_key_type })
    await planOrder(tx, account.accountId, before.id)
  }
  const after = await findReservedDomain(tx, account, toId('rd', before.id), false)
  if (!after) throw new Error('a domain that this transaction holds is not there')
  return after
}
