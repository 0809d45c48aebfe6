/** Whether clients must show a certificate, or may. One that they show and that does not verify is refused either way. */
export const mutualTlsModes = ['required', 'optional'] as const
export type MutualTlsMode = (typeof mutualTlsModes)[number]
export const defaultMutualTlsMode: MutualTlsMode = 'required'

/** All of them together have to fit into one command on the runtime socket of a node's proxy. */
export const authorityLimits = { authorities: 10, pemBytes: 8_192, allBytes: 20_000 } as const

/** What is known of the client of a request. Upstreams believe these names, so clients can send none of them on any edge. */
export const clientCertificateHeaders = 'x-client-certificate-*'
