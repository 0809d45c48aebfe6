import { useQuery } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import type { Shapes } from '../../api/client.ts'
import { queries } from '../../api/queries.ts'
import { isFaulty, type Status } from '../../ui/status.tsx'
import { type ApiKey, expiryOf } from '../keys/key.tsx'
import { useNames, withNames } from '../rollouts/words.tsx'

export type AttentionItem = {
  id: string
  tone: 'refused' | 'warned'
  title: ReactNode
  detail: string
  to: string
  action: string
}

/** Undefined until everything that it looks at was read, or could not be. */
export function useAttention(isAdmin: boolean): AttentionItem[] | undefined {
  const nodes = useQuery({ ...queries.nodes(), enabled: isAdmin })
  const refused = useQuery({ ...queries.newlyRefused(), enabled: isAdmin }).data?.newly_refused_addresses ?? []
  const keys = useQuery(queries.keys())
  const https = useQuery(queries.httpsEdges())
  const tcp = useQuery(queries.tcpEdges())
  const backends = useQuery(queries.backends())
  const weighted = useQuery(queries.weightedBackends())
  const failover = useQuery(queries.failoverBackends())
  const certificates = useQuery(queries.certificates())
  const domains = useQuery(queries.domains())
  const webhooks = useQuery({ ...queries.webhooks(), enabled: isAdmin })
  const halted = useQuery(queries.haltedRollouts())
  const rollouts = halted.data?.rollouts ?? []
  const nameOf = useNames()
  const reads = [halted, keys, https, tcp, backends, certificates, domains, ...(isAdmin ? [nodes, webhooks] : [])]
  if (reads.some(({ isPending }) => isPending)) return undefined
  const edges = [...(https.data ?? []), ...(tcp.data ?? [])]
  const groups = [...(weighted.data ?? []), ...(failover.data ?? [])]
  const items = [
    ...(nodes.data?.edge_nodes ?? []).flatMap(({ name, status }) =>
      itemFor({
        id: `node ${name}`,
        name: `Node ${name}`,
        status,
        to: `/nodes/${encodeURIComponent(name)}`,
        what: 'node',
      }),
    ),
    ...rollouts.map((rollout) => aboutRollout(rollout, nameOf)),
    ...aboutRefused(refused),
    ...[...(backends.data ?? []), ...groups]
      .filter(({ status }) => !isAmong(rollouts, status))
      .flatMap(({ id, description, status, ...rest }) =>
        itemFor({
          id,
          name: description ?? ('address' in rest ? rest.address : id),
          status,
          to: `/backends/${id}`,
          what: 'backend',
        }),
      ),
    ...edges
      .filter(({ status }) => !hasCauseElsewhere(status) && !isAmong(rollouts, status))
      .flatMap(({ id, description, hostports, status }) =>
        itemFor({ id, name: description ?? hostports[0] ?? id, status, to: `/edges/${id}`, what: 'edge' }),
      ),
    ...(domains.data ?? []).flatMap(({ id, domain, status }) =>
      itemFor({ id, name: domain, status, to: `/domains/${id}`, what: 'domain' }),
    ),
    ...(certificates.data ?? [])
      .filter(({ status }) => !hasCauseElsewhere(status))
      .flatMap(({ id, description, subject_common_name, status }) =>
        itemFor({
          id,
          name: `Certificate ${description ?? subject_common_name ?? id}`,
          status,
          to: `/certificates/${id}`,
          what: 'certificate',
        }),
      ),
    ...(webhooks.data ?? [])
      .filter(({ status }) => status?.code !== 'disabled')
      .flatMap(({ id, description, url, status }) =>
        itemFor({ id, name: `Webhook ${description ?? url}`, status, to: `/webhooks/${id}`, what: 'webhook' }),
      ),
    ...aboutKeys(keys.data ?? []),
  ]
  return items.sort((a, b) => Number(a.tone === 'warned') - Number(b.tone === 'warned'))
}

/** The backend or the node that is to blame has an item of its own, instead of one for each edge that it concerns. */
const causes = new Set(['servers_down', 'servers_failing', 'on_fallback', 'node_away', 'node_behind', 'storage_fault'])
const hasCauseElsewhere = (status: Status | undefined): boolean => causes.has(status?.code ?? '')

/** The rollout has an item of its own, if it could be read. */
const isAmong = (rollouts: readonly Shapes['Rollout'][], status: Status | undefined): boolean =>
  status?.code === 'rollout_halted' && rollouts.some(({ id }) => id === status.rollout?.id)

const aboutRollout = ({ id, cell, reason }: Shapes['Rollout'], nameOf: ReturnType<typeof useNames>): AttentionItem => ({
  ...{
    id,
    tone: 'warned',
    title: `A change was halted in cell ${cell}`,
    to: `/rollouts/${id}`,
    action: 'View rollout',
  },
  detail: `${withNames(reason ?? 'No reason was given', nameOf)}. What this account changes there waits for a decision.`,
})

type Thing = { id: string; name: string; status: Status | undefined; to: string; what: string }

function itemFor({ id, name, status, to, what }: Thing): AttentionItem[] {
  if (!status || !isFaulty(status)) return []
  const tone = status.state === 'down' ? 'refused' : 'warned'
  return [{ id, tone, title: `${name} is ${status.state}`, detail: status.reason, to, action: `View ${what}` }]
}

/** One item for all of them: a change usually shuts out several. */
function aboutRefused(refused: readonly Shapes['NewlyRefusedAddress'][]): AttentionItem[] {
  const [first] = refused
  if (!first) return []
  const isOne = refused.length === 1
  return [
    {
      id: 'newly refused',
      tone: 'refused',
      title: isOne ? (
        <>
          <span className="mono">{first.ip}</span> was let in before and is refused now
        </>
      ) : (
        `${refused.length} addresses were let in before and are refused now`
      ),
      detail: isOne
        ? 'A change or the expiry of a rule has shut it out.'
        : 'Changes or the expiry of rules have shut them out.',
      to: '/newly-refused',
      action: 'View addresses',
    },
  ]
}

function aboutKeys(keys: readonly ApiKey[]): AttentionItem[] {
  const expiring = keys.filter((key) => expiryOf(key) === 'soon')
  if (expiring.length === 0) return []
  return [
    {
      id: 'keys',
      tone: 'warned',
      title: expiring.length === 1 ? '1 API key expires this week' : `${expiring.length} API keys expire this week`,
      detail: expiring.map(({ description, id }) => description ?? id).join(', '),
      to: '/keys?show=expiring',
      action: 'View keys',
    },
  ]
}
