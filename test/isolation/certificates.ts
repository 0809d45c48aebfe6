import { newCertificate } from '../harness/certificates.ts'
import type { Expectation } from './expectation.ts'

/** One for all tests: openssl takes a while. */
export const certificateBody = newCertificate(['*.isolation.example'])

export const certificateExpectations = (
  path: NonNullable<Expectation['path']>,
  lists: NonNullable<Expectation['lists']>,
): Record<string, Expectation> => ({
  'tls_certificates.create': { admin: 201, member: 201, body: () => certificateBody },
  'tls_certificates.get': { admin: 200, member: 200, path },
  'tls_certificates.list': { admin: 200, member: 200, lists },
  'tls_certificates.update': { admin: 200, member: 200, path, body: () => ({ description: 'other' }) },
  'tls_certificates.delete': { admin: 204, member: 204, path },
})
