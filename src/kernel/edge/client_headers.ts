import { clientCertificateHeaders } from './mutual_tls.ts'

/** What edges remove from every request, in lower case; a star matches any ending. */
export const clientMayNotSend = [
  'connection',
  'keep-alive',
  'proxy-*',
  'te',
  'trailer',
  'upgrade',
  'x-forwarded-*',
  'forwarded',
  'x-real-ip',
  'x-client-ip',
  'x-cluster-client-ip',
  'true-client-ip',
  'cf-connecting-ip',
  'x-request-id',
  clientCertificateHeaders,
  // Replace the path in some frameworks, and with it the one that was decided on.
  'x-original-*',
  'x-rewrite-url',
]

export const isRemovedFromRequests = (name: string): boolean =>
  clientMayNotSend.some((each) =>
    each.endsWith('*') ? name.toLowerCase().startsWith(each.slice(0, -1)) : name.toLowerCase() === each,
  )
