import { publicKeyPattern } from '../distribution/delivery.ts'
import { readJson } from '../http/input/body.ts'
import { limitReached } from '../http/limits/rate_limits.ts'
import type { PlainAnswer, PlainRequest, PlainRoute } from '../http/plain.ts'
import type { Service } from '../http/service.ts'
import { forbidden, invalidField, Refusal } from '../kernel/errors.ts'
import { listSigningKeys } from '../publisher/signing_keys.ts'
import type { Fleet } from './fleet.ts'
import { type JoinedNode, joinFleet } from './join.ts'
import { isJoinToken } from './join_token.ts'
import { nodeUserJwt } from './nats_accounts.ts'
import { isUserKey } from './nats_jwt.ts'

const bodyLimitBytes = 4_096

export type JoinParts = {
  readonly service: Service
  readonly fleet: Fleet
  /** The NATS servers as nodes reach them. */
  readonly natsServers: readonly string[]
  /** PEM of the CA that signed NATS's certificates. Null for those that Node.js trusts. */
  readonly natsCa: string | null
  readonly emergencyKeys: readonly string[]
  readonly warn: (fields: object, message: string) => void
}

/** How a machine becomes an edge node. It has no API key; its token says what it may do. */
export const joinRoutes = (parts: JoinParts): readonly PlainRoute[] => [
  {
    operation: 'edge_nodes.join',
    method: 'POST',
    path: '/edge_nodes/join',
    handle: (request) => join(parts, request),
  },
]

async function join(parts: JoinParts, request: PlainRequest): Promise<PlainAnswer> {
  const { service, fleet, warn } = parts
  const fields = await fieldsOf(request)
  if (!fleet.isLoaded())
    throw new Refusal('ERR_UNAVAILABLE', 'The control plane is starting. The token is still valid; try again.')
  if (!fleet.operator())
    throw forbidden("NATS has its users in a configuration file here. Run 'gatehouse nats init' on the control plane.")
  let isAdmitted = false
  const outcome = isJoinToken(fields.token)
    ? await joinFleet(service.db, { ...fields, sourceIp: request.sourceIp }, async (node) => {
        isAdmitted = await fleet.admit(node).catch((cause) => {
          throw new Refusal('ERR_UNAVAILABLE', 'NATS does not answer. The token is still valid; try again.', { cause })
        })
      })
    : 'unknown'
  if (outcome === 'name taken')
    throw invalidField(
      'name',
      'is the name of another node. Choose another one with --name, or revoke that node. The token is still valid',
    )
  if (typeof outcome === 'string') {
    warn({ reason: outcome, node: fields.name, source_ip: request.sourceIp }, 'an edge node was refused to join')
    throw refused(service, request)
  }
  service.edges.committed()
  return { status: 200, body: { ...(await answer(parts, outcome)), nats_in_operator_mode: isAdmitted } }
}

/** The same refusal for every reason: only the operator, who reads the log and the events, needs to know which. */
function refused({ rateLimits }: Service, { source, facts }: PlainRequest): Refusal {
  const use = rateLimits.countFailure(source, true)
  if (use?.allowance.allowed === false) {
    facts.limitUse = use
    return limitReached(use)
  }
  return new Refusal(
    'ERR_UNAUTHENTICATED',
    "The join token is unknown, has expired or was used. Make another one with 'gatehouse nodes invite'.",
  )
}

async function answer(
  { service, fleet, natsServers, natsCa, emergencyKeys }: JoinParts,
  node: JoinedNode,
): Promise<object> {
  const operator = fleet.operator()
  return {
    name: node.name,
    cell: node.cell,
    wave: node.wave,
    nats_jwt: operator && nodeUserJwt(operator, node, service.clock()),
    nats_servers: node.leafServers ?? natsServers,
    nats_ca_pem: natsCa,
    trusted_keys: (await listSigningKeys(service.db)).map(({ public_key }) => public_key),
    emergency_keys: emergencyKeys,
    control_plane_hosts: [new URL(service.publicUrl).hostname.replace(/^\[|\]$/g, '')],
    tcp_ports: `${service.settings.tcpPorts.first}-${service.settings.tcpPorts.last}`,
  }
}

async function fieldsOf({ raw }: PlainRequest) {
  const body = await readJson(raw, bodyLimitBytes)
  const given = (typeof body === 'object' && body !== null ? body : {}) as Record<string, unknown>
  const field = (name: string, is: (text: string) => boolean, must: string): string => {
    const value = given[name]
    if (typeof value !== 'string' || !is(value)) throw invalidField(name, must)
    return value
  }
  return {
    token: field('token', (text) => text.length <= 200, 'must be a join token'),
    name: field(
      'name',
      (text) => /^[a-z0-9][a-z0-9-]{0,62}$/.test(text),
      'must be at most 63 lowercase letters, digits and hyphens',
    ),
    user: field('nats_user', isUserKey, 'must be the public key of a NATS user'),
    nodeKey: field('node_key', (text) => new RegExp(publicKeyPattern).test(text), 'must be an X25519 public key'),
  }
}
