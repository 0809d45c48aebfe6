import type { EdgeConfig } from '../config/config.ts'
import { answerTimeoutMs, type Finding, ok, warning } from './finding.ts'
import { urlOf } from './ports.ts'

type Certificates = { missing?: number; missingNames?: string[] }

/** HTTPS edge names that the running node cannot serve. A stopped node serves none, which `service.state` reports. */
export async function checkServedNames({ GATEHOUSE_EDGE_STATUS_LISTEN: listen }: EdgeConfig): Promise<Finding[]> {
  const check = 'certificates.served_names'
  const status = await fetch(`${urlOf(listen)}/status`, { signal: AbortSignal.timeout(answerTimeoutMs) })
    .then((response) => response.json() as Promise<{ certificates?: Certificates }>)
    .catch(() => undefined)
  const { missing, missingNames = [] } = status?.certificates ?? {}
  if (missing === undefined) return []
  if (missing === 0) return [ok(check, 'every name of an HTTPS edge has a certificate on this node')]
  const rest = missing - missingNames.length
  return [
    warning(
      check,
      `${missing} ${missing === 1 ? 'name' : 'names'} of HTTPS edges without a certificate on this node: ${missingNames.join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`,
      'Clients get a TLS error there. Put a PEM file into GATEHOUSE_EDGE_CERTIFICATES, or let the account upload or order one: docs/guides/certificates.md',
    ),
  ]
}
