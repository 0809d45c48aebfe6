import { Type } from 'typebox'
import { nodeKeyFingerprint } from '../../distribution/delivery.ts'
import { readDueGeneration } from '../../health/facts.ts'
import { statusOfNode } from '../../health/fleet.ts'
import { StatusShown } from '../../health/schema.ts'
import type { Status } from '../../health/status.ts'
import { route } from '../../http/route.ts'
import { Closed, type Static, Timestamp, TimestampOrNull } from '../../http/wire.ts'
import { rfc3339 } from '../../kernel/clock.ts'
import type { EdgeNode as KnownNode } from '../../kernel/edge/edge_nodes.ts'
import { generationsOf, settledGeneration } from '../../operations/outbox.ts'
import { Rollout } from '../rollouts/schema.ts'
import { rolloutsOf } from '../rollouts/store.ts'
import { toRollout } from '../rollouts/view.ts'
import { acceptedNodeKeys, joinTimes, ownNodes } from './store.ts'

const Refusal = Closed(
  {
    key: Type.String({ description: 'The record that was rejected.' }),
    generation: Type.Unsafe<number | null>({ type: ['integer', 'null'] }),
    reason: Type.String(),
    at: Timestamp,
  },
  { title: 'EdgeRefusal' },
)
type ShownCertificates = {
  names: number
  unusable: number
  missing_names: number | null
  first_expires_at: string | null
}
const EdgeNode = Closed(
  {
    name: Type.String(),
    cell: Type.String({ description: 'The cell that the node is in.' }),
    live: Type.Boolean({ description: 'Whether the node has reported recently.' }),
    applied_generation: Type.Integer({ description: 'The node has applied every change up to this generation.' }),
    records: Type.Integer(),
    version: Type.String(),
    joined_at: TimestampOrNull('When the node joined. Null: it connects to NATS with a password.'),
    started_at: Timestamp,
    last_seen_at: Timestamp,
    certificate_key: Type.Unsafe<{ fingerprint: string; accepted: boolean } | null>({
      description:
        'The key of the node, to which certificate private keys are encrypted. Until the operator accepts it, the node gets none. Null: the node is of a version without one.',
      anyOf: [Closed({ fingerprint: Type.String(), accepted: Type.Boolean() }), { type: 'null' }],
    }),
    certificates: Type.Unsafe<ShownCertificates | null>({
      description:
        "Names for which the node has a certificate, of an account or in its operator's folder; certificates of accounts that it cannot use; names of HTTPS edges without a certificate; and when the first of those in use expires. Null: not known.",
      anyOf: [
        Closed({
          names: Type.Integer(),
          unusable: Type.Integer(),
          missing_names: Type.Unsafe<number | null>({
            type: ['integer', 'null'],
            description:
              'Number of names of HTTPS edges of all accounts for which the node has no certificate, so that clients get a TLS error. Null: not known.',
          }),
          first_expires_at: TimestampOrNull('Null: there are none.'),
        }),
        { type: 'null' },
      ],
    }),
    refusals: Type.Array(Refusal, { description: 'The latest records that the node rejected, and why.' }),
    rejected_records: Type.Unsafe<number | null>({
      type: ['integer', 'null'],
      description:
        'Number of records of all accounts that the node rejected and that no later record has replaced. Null: not known.',
    }),
    lowest_rejected_generation: Type.Unsafe<number | null>({
      type: ['integer', 'null'],
      description: 'The lowest generation of these records. Null: there are none, or it is not known.',
    }),
    storage_fault: Type.Unsafe<string | null>({
      type: ['string', 'null'],
      description:
        'Why the node cannot write to its disk. It keeps enforcing what it has and applies nothing new until it can. Null: it can.',
    }),
    proxy_differences: Type.Unsafe<{ found: number; since: string | null; last_agreed_at: string | null } | null>({
      description:
        'What another program changed in the HAProxy of the node. `found` counts entries, backends and certificates since the agent started, and the log of the node names them. Null: the version of the node does not compare them.',
      anyOf: [
        Closed({
          found: Type.Integer(),
          since: TimestampOrNull(
            'When the first was found that no complete comparison without any has followed. Null: everything is as it should be.',
          ),
          last_agreed_at: TimestampOrNull('When a complete comparison last found nothing. Null: none has yet.'),
        }),
        { type: 'null' },
      ],
    }),
    status: StatusShown,
  },
  { title: 'EdgeNode' },
)
const EdgeNodeList = Closed(
  {
    newest_generation: Type.Integer({
      description: 'Generation of the newest change of the installation. A node that has applied it is up to date.',
    }),
    edge_nodes: Type.Array(EdgeNode),
  },
  { title: 'EdgeNodeList' },
)
const Generation = Closed(
  {
    generation: Type.Integer(),
    live_nodes: Type.Integer({ description: 'Number of live edge nodes.' }),
    applied_nodes: Type.Integer({ description: 'Number of live edge nodes that have applied the change.' }),
    behind: Type.Array(Type.String(), { description: 'Names of the live edge nodes that have not applied it yet.' }),
    refusals: Type.Array(Closed({ node: Type.String(), ...Refusal.properties }, { title: 'EdgeNodeRefusal' }), {
      description: 'Records of this generation that nodes rejected, and why.',
    }),
    withheld: Type.Array(Closed({ key: Type.String(), reason: Type.String() }, { title: 'WithheldRecord' }), {
      description:
        'Records of this generation that the control plane cannot send to edge nodes, and why. No node has applied the change then.',
    }),
    rollouts: Type.Array(Rollout, {
      description:
        'The rollouts that the change is part of, one for each cell whose nodes get it in waves. Until they are released, the nodes above are those that have to have it by now, and not all.',
    }),
  },
  { title: 'Generation' },
)

type Around = { joined: ReadonlyMap<string, string>; accepted: ReadonlySet<string>; status: Status }

const shown = (node: KnownNode, { joined, accepted, status }: Around): Static<typeof EdgeNode> => ({
  name: node.node,
  cell: node.cell,
  live: node.live,
  applied_generation: node.applied,
  records: node.records,
  version: node.version,
  joined_at: joined.get(node.node) ?? null,
  started_at: node.startedAt,
  last_seen_at: rfc3339(node.lastSeenAt),
  certificate_key:
    node.nodeKey === undefined
      ? null
      : { fingerprint: nodeKeyFingerprint(node.nodeKey), accepted: accepted.has(`${node.node} ${node.nodeKey}`) },
  certificates: node.certificates
    ? {
        names: node.certificates.names,
        unusable: node.certificates.waiting,
        missing_names: node.certificates.missing ?? null,
        first_expires_at: node.certificates.firstExpiry,
      }
    : null,
  refusals: node.refusals,
  rejected_records: node.refused?.records ?? null,
  lowest_rejected_generation: node.refused?.lowest ?? null,
  storage_fault: node.storageFault ?? null,
  proxy_differences: node.differences
    ? {
        found: node.differences.found,
        since: node.differences.since,
        last_agreed_at: node.differences.agreedAt,
      }
    : null,
  status,
})

type NodeRefusal = KnownNode['refusals'][number]
const refusedGenerations = ({ refusals }: KnownNode): number[] => refusals.map(({ generation }) => generation ?? 0)

/**
 * Nodes serve many accounts, and a refusal names its record. Each account sees its own refusals and those without an
 * account.
 */
const isFor =
  (own: ReadonlySet<number>) =>
  ({ generation }: NodeRefusal): boolean =>
    generation === null || own.has(generation)

export const edgeNodeRoutes = [
  route({
    operation: 'edge_nodes.list',
    summary: "List the edge nodes of the account's cells, with the versions they run and the records they refused",
    method: 'GET',
    path: '/edge_nodes',
    success: 200,
    response: EdgeNodeList,
    // Only admins see where the edges run.
    access: 'admin',
    async handle({ db, caller, edges }) {
      const newest_generation = await settledGeneration(db)
      const joined = await joinTimes(db)
      const nodes = await ownNodes(db, caller, edges.all())
      const own = await generationsOf(db, caller, nodes.flatMap(refusedGenerations))
      const accepted = await acceptedNodeKeys(db)
      const due = await readDueGeneration(db)
      const isConnected = edges.isConnected()
      const edge_nodes = nodes.map((node) => {
        const status = statusOfNode(node, { isConnected, due, accepted })
        return shown({ ...node, refusals: node.refusals.filter(isFor(own)) }, { joined, accepted, status })
      })
      return { body: { newest_generation, edge_nodes } }
    },
  }),
  route({
    operation: 'generations.get',
    summary:
      'Get how many edge nodes have applied a change. Its generation is in the Service-Generation header of the response to the change',
    method: 'GET',
    path: '/generations/:generation',
    params: { generation: 'number' },
    success: 200,
    response: Generation,
    access: 'anyone',
    async handle({ db, caller, edges, params, uri }) {
      const generation = Number(params.generation)
      const { live, applied, behind, withheld } = await edges.status(generation, caller.accountId)
      const own = await generationsOf(db, caller, [generation])
      return {
        body: {
          generation,
          live_nodes: live.length,
          applied_nodes: applied.length,
          behind: behind.map(({ node }) => node),
          refusals: own.has(generation) ? refusedAt(await ownNodes(db, caller, edges.all()), generation) : [],
          withheld: own.has(generation) ? withheld : [],
          rollouts: (await rolloutsOf(db, caller, generation)).map((row) => toRollout(row, uri)),
        },
      }
    },
  }),
]

const refusedAt = (nodes: KnownNode[], generation: number) =>
  nodes.flatMap(({ node, refusals }) =>
    refusals.filter((refusal) => refusal.generation === generation).map((refusal) => ({ node, ...refusal })),
  )
