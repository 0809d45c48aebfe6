import { X509Certificate } from 'node:crypto'
import { exampleAuthority } from '../../src/kernel/crypto/example_authority.ts'
import type { MutualTlsMode } from '../../src/kernel/edge/mutual_tls.ts'

/** Two authorities of clients, made by openssl for a hundred years. Their keys are gone. */
export const clientAuthority1 = exampleAuthority
export const clientAuthority2 = `-----BEGIN CERTIFICATE-----
MIIBwzCCAWmgAwIBAgIUKLdv9oT81Z0UWwwVCJgtPhDYOpMwCgYIKoZIzj0EAwIw
LjEYMBYGA1UECgwPR2F0ZWhvdXNlIHRlc3RzMRIwEAYDVQQDDAlDbGllbnRzIDIw
IBcNMjYxMTE5MDM0MDM0WhgPMjEyNjEwMjYwMzQwMzRaMC4xGDAWBgNVBAoMD0dh
dGVob3VzZSB0ZXN0czESMBAGA1UEAwwJQ2xpZW50cyAyMFkwEwYHKoZIzj0CAQYI
KoZIzj0DAQcDQgAEd7XIUQYMkYwiSj0NEHGkaOYQ31SXIV7tllMvcY5A4iCqPIKU
PsCAtSqzjaN6qn2vYHM/T5da+HlesD9lFIAEVKNjMGEwHQYDVR0OBBYEFPKy+Ba/
wxOBdBo+6Mv1vJxNXPCvMB8GA1UdIwQYMBaAFPKy+Ba/wxOBdBo+6Mv1vJxNXPCv
MA8GA1UdEwEB/wQFMAMBAf8wDgYDVR0PAQH/BAQDAgEGMAoGCCqGSM49BAMCA0gA
MEUCIQC//94wjOatJT+xrxfuHGqt4hbStAxMX+uKhLKW6BSO9AIgT+27NV/mCffa
aFv/MVjJ28NzkywUm5WiK6WMSzpkWSc=
-----END CERTIFICATE-----
`

const shownOf = (pem: string) => {
  const { fingerprint256, validFromDate, validToDate, subject } = new X509Certificate(pem)
  return {
    subject: subject?.replaceAll('\n', ','),
    sha256_fingerprint: fingerprint256.replaceAll(':', '').toLowerCase(),
    not_before: validFromDate.toISOString(),
    not_after: validToDate.toISOString(),
  }
}

/** As in test/harness/route_modules.ts, of HTTPS edges. */
export const mutualTlsSample = {
  least: { certificate_authorities: [clientAuthority1] },
  /** What the API shows of a body. */
  shownOf: ({
    certificate_authorities,
    mode = 'required',
  }: {
    certificate_authorities: string[]
    mode?: MutualTlsMode
  }) => ({
    ...{ certificate_authorities, mode, authorities: certificate_authorities.map(shownOf) },
  }),
  whole: { certificate_authorities: [clientAuthority2, clientAuthority1], mode: 'optional' as MutualTlsMode },
  record: { mode: 'required' as MutualTlsMode, authorities: [clientAuthority1] },
}
