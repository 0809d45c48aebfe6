import { clientCertificateHeaders } from './mutual_tls.ts'

/** Headers that edges remove from every request, in lower case; `*` matches any ending. */
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
  // Some frameworks take the path from these headers, which would bypass the decision about the original path.
  'x-original-*',
  'x-rewrite-url',
]

export const isRemovedFromRequests = (name: string): boolean =>
  clientMayNotSend.some((each) =>
    each.endsWith('*') ? name.toLowerCase().startsWith(each.slice(0, -1)) : name.toLowerCase() === each,
  )
