import { createPrivateKey, X509Certificate } from 'node:crypto'

/**
 * Says why HAProxy would not start with this file of certificate, chain and key. Omits OpenSSL's message, which may
 * quote the file.
 */
export function pemFault(pem: string): string | undefined {
  try {
    if (!new X509Certificate(pem).checkPrivateKey(createPrivateKey(pem)))
      return 'its key is not that of its first certificate'
    return pem.length < 24_000 ? undefined : 'it is too long for the runtime socket'
  } catch {
    return 'its certificate or its key cannot be read'
  }
}
