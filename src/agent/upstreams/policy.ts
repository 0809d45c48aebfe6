import { networkInterfaces } from 'node:os'
import { createDialPolicy, type DialPolicy, type OwnPorts, type Service } from '../../kernel/ip/dial_policy.ts'
import type { CompiledPolicy } from '../../kernel/ip/ranges.ts'

type Options = {
  deny: CompiledPolicy
  allow: CompiledPolicy
  /** Where this node itself listens, on any address. */
  ownPorts: OwnPorts
  /** The addresses of this machine now. */
  ownAddresses?: () => string[]
  /** The machines of NATS and the rest of the control plane now. */
  services?: () => readonly Service[]
}

/** Which addresses HAProxy may be given. Private networks are allowed, because that is where upstreams are. */
export const createUpstreamPolicy = ({ ownAddresses = interfaceAddresses, ...options }: Options): DialPolicy =>
  createDialPolicy({
    ...options,
    ownAddresses,
    deniesPrivate: false,
    words: { self: 'edge node', operator: 'the operator of the edge' },
  })
export type UpstreamPolicy = DialPolicy

/** Without the zone of link-local ones. */
const interfaceAddresses = (): string[] =>
  Object.values(networkInterfaces()).flatMap((all) => (all ?? []).map(({ address }) => address.replace(/%.*$/, '')))
