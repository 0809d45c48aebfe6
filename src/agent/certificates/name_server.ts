import type { MutualTlsMode } from '../../kernel/edge/mutual_tls.ts'

/** What the proxy serves for one name. `except`: names under a wildcard that are not the account's. */
export type ServedName = {
  readonly name: string
  readonly certificate: string
  readonly except: readonly string[]
  readonly pem: string
  /** Clients are asked for a certificate of these authorities. */
  readonly asks?: AskedOfClients | undefined
}
export type AskedOfClients = {
  readonly mode: MutualTlsMode
  readonly authorities: string
  /** The digest of both; see mutualTlsDigest. */
  readonly settings: string
}
/** How names get their certificates in a proxy. For a name it rejects, it gives the reason and keeps the certificate it had. */
export type NameServer = {
  /** By name: the file of the operator's that has it. Another map whenever that changes. */
  readonly taken: () => ReadonlyMap<string, string>
  /** By name: the certificate that is served now, also after a restart. */
  readonly served: () => ReadonlyMap<
    string,
    { certificate: string; notAfter: number; except: readonly string[]; asks?: { settings: string } | undefined }
  >
  /** What is in a file of the operator's. Undefined when it is gone. */
  readonly takenPem: (file: string) => Promise<string | undefined>
  /** Takes in the operator's files as they are now. */
  readonly lookForFiles: () => Promise<void>
  /** When the first of the operator's files expires; infinite without any. */
  readonly takenUntil: () => number
  readonly serve: (change: {
    set: readonly ServedName[]
    del: readonly string[]
  }) => Promise<{ name: string; fault: string }[]>
}
