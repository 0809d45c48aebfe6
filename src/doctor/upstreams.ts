import { openDns } from '../agent/upstreams/dns.ts'
import { createUpstreamPolicy } from '../agent/upstreams/policy.ts'
import { controlPlaneHosts, ownPorts } from '../commands/edge_node/settings.ts'
import type { EdgeConfig } from '../config/config.ts'
import { parseAddress } from '../kernel/ip/address.ts'
import { type Finding, ok, warning } from './finding.ts'

const check = 'edge.upstreams'
/** For services whose port the policy does not know. */
const anyPort = 0

/** Checks whether a tenant could make this node dial NATS, the API or other services on their machines. */
export async function checkUpstreams(config: EdgeConfig): Promise<Finding[]> {
  const dns = await openDns({ servers: [], families: 'all' })
  const hosts = await Promise.all(
    controlPlaneHosts(config).map(async ({ host, ports }) => {
      if (parseAddress(host)) return { host, ports, addresses: [host] }
      const answer = await dns.lookUp(host)
      return { host, ports, addresses: typeof answer === 'object' ? answer.addresses : [] }
    }),
  )
  dns.stop()
  const { fault } = createUpstreamPolicy({
    deny: config.GATEHOUSE_EDGE_UPSTREAM_DENY,
    allow: config.GATEHOUSE_EDGE_UPSTREAM_ALLOW,
    ownPorts: ownPorts(config),
    services: () => hosts.flatMap(({ addresses, ports }) => addresses.map((address) => ({ address, ports }))),
  })
  const open = hosts.filter(({ addresses }) => addresses.some((address) => !fault(address, anyPort)))
  const unknown = hosts.filter(({ addresses }) => addresses.length === 0)
  const namesOf = (some: typeof hosts) => [...new Set(some.map(({ host }) => host))].join(', ')
  const findings = [
    ...(open.length > 0
      ? [
          warning(
            check,
            `tenants can have this node dial ports of ${namesOf(open)}, because GATEHOUSE_EDGE_UPSTREAM_ALLOW contains its address`,
            'Narrow that setting, or put the address into GATEHOUSE_EDGE_UPSTREAM_DENY',
          ),
        ]
      : []),
    ...(unknown.length > 0
      ? [
          warning(
            check,
            `${namesOf(unknown)} cannot be resolved, so its addresses are not denied to tenants`,
            'Correct GATEHOUSE_EDGE_CONTROL_PLANE_HOSTS and GATEHOUSE_NATS_URL, or /etc/resolv.conf',
          ),
        ]
      : []),
    ...(config.GATEHOUSE_EDGE_CONTROL_PLANE_HOSTS.length === 0
      ? [
          warning(
            check,
            'GATEHOUSE_EDGE_CONTROL_PLANE_HOSTS is not set, so tenants may use the API as an upstream',
            "Set it to the host of the API's public URL, PostgreSQL's host and others that tenants must not reach",
          ),
        ]
      : []),
  ]
  return findings.length > 0
    ? findings
    : [ok(check, 'the hosts of NATS and the control plane are not dialed for tenants')]
}
