import type { Files } from '../../disk/files.ts'
import type { Certificates } from '../certificates.ts'
import type { Natives } from '../native/natives.ts'
import type { ProxySettings } from '../settings.ts'
import type { TenantCertificates } from '../tenant_certificates.ts'
import { createCertificateComparison } from './certificate_comparison.ts'
import type { Difference } from './difference.ts'

type Parts = {
  natives: Pick<Natives, 'differences'>
  certificates: Pick<Certificates, 'loaded' | 'lineDifferences'>
  tenants: Pick<TenantCertificates, 'differences' | 'loaded'>
}

export function createOtherComparison(
  settings: ProxySettings,
  files: Files,
  { natives, certificates, tenants }: Parts,
): () => Promise<Difference[]> {
  const certificateDifferences = createCertificateComparison(settings, files)
  return async () => {
    // Unknown while the operator's certificates are being loaded.
    const operators = certificates.loaded()
    const loaded = operators && new Map([...operators, ...tenants.loaded()])
    return [
      ...(await natives.differences()),
      ...(await tenants.differences()),
      ...(operators ? await certificates.lineDifferences() : []),
      ...(loaded ? await certificateDifferences(loaded) : []),
    ]
  }
}
