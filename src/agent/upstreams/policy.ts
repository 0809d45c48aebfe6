import { networkInterfaces } from 'node:os'
import { createDialPolicy, type DialPolicy, type OwnPorts, type Service } from '../../kernel/ip/dial_policy.ts'
import type { CompiledPolicy } from '../../kernel/ip/ranges.ts'

type Options = {
  deny: CompiledPolicy
  allow: CompiledPolicy
  /** Ports on which this node itself listens, on any address. */
  ownPorts: OwnPorts
  ownAddresses?: () => string[]
  /** The current machines of NATS and the rest of the control plane. */
  services?: () => readonly Service[]
}

/** Which addresses HAProxy may dial. Private networks are allowed, because upstreams are there. */
export const createUpstreamPolicy = ({ ownAddresses = interfaceAddresses, ...options }: Options): DialPolicy =>
  createDialPolicy({
    ...options,
    ownAddresses,
    deniesPrivate: false,
    words: { self: 'edge node', operator: 'the operator of the edge' },
  })
export type UpstreamPolicy = DialPolicy

/** Without the zone of link-local addresses. */
const interfaceAddresses = (): string[] =>
  Object.values(networkInterfaces()).flatMap((all) => (all ?? []).map(({ address }) => address.replace(/%.*$/, '')))
