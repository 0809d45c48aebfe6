/** Whether clients must present a certificate, or may. An invalid one is refused in both modes. */
export const mutualTlsModes = ['required', 'optional'] as const
export type MutualTlsMode = (typeof mutualTlsModes)[number]
export const defaultMutualTlsMode: MutualTlsMode = 'required'

/** All together must fit into one command on HAProxy's runtime socket. */
export const authorityLimits = { authorities: 10, pemBytes: 8_192, allBytes: 20_000 } as const

/**
 * Headers that describe the client to upstreams. Upstreams trust them, so clients cannot send any of them on any edge.
 */
export const clientCertificateHeaders = 'x-client-certificate-*'
