import type { MutualTlsMode } from '../../kernel/edge/mutual_tls.ts'

/** What the proxy serves for one name. `except` lists names under a wildcard that belong to other accounts. */
export type ServedName = {
  readonly name: string
  readonly certificate: string
  readonly except: readonly string[]
  readonly pem: string
  /** Authorities of which clients must present a certificate. */
  readonly asks?: AskedOfClients | undefined
}
export type AskedOfClients = {
  readonly mode: MutualTlsMode
  readonly authorities: string
  /** The digest of both; see mutualTlsDigest. */
  readonly settings: string
}
/**
 * Loads certificates into a proxy, by name. If `serve` fails for a name, it returns the reason and the name keeps its
 * previous certificate.
 */
export type NameServer = {
  /** The operator's file for each name. A new map object after every change. */
  readonly taken: () => ReadonlyMap<string, string>
  /** The certificate in use for each name, even after a restart. */
  readonly served: () => ReadonlyMap<
    string,
    { certificate: string; notAfter: number; except: readonly string[]; asks?: { settings: string } | undefined }
  >
  /** Content of an operator's file; undefined if the file is gone. */
  readonly takenPem: (file: string) => Promise<string | undefined>
  /** Rereads the operator's folder. */
  readonly lookForFiles: () => Promise<void>
  /** Earliest expiry among the operator's files; infinite if there are none. */
  readonly takenUntil: () => number
  readonly serve: (change: {
    set: readonly ServedName[]
    del: readonly string[]
  }) => Promise<{ name: string; fault: string }[]>
}
