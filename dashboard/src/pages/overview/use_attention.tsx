import { useQuery } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import type { Shapes } from '../../api/client.ts'
import { queries } from '../../api/queries.ts'
import { orderOf } from '../domains/management.tsx'
import { type ApiKey, expiryOf } from '../keys/key.tsx'

export type AttentionItem = {
  id: string
  tone: 'refused' | 'warned'
  title: ReactNode
  detail: string
  to: string
  action: string
}

/** What someone must act on, worst first. Undefined until everything that it looks at was read. */
export function useAttention(isAdmin: boolean): AttentionItem[] | undefined {
  const nodes = useQuery({ ...queries.nodes(), enabled: isAdmin })
  const refused = useQuery({ ...queries.newlyRefused(), enabled: isAdmin }).data?.newly_refused_addresses ?? []
  const keys = useQuery(queries.keys()).data
  const https = useQuery(queries.httpsEdges()).data
  const tcp = useQuery(queries.tcpEdges()).data
  const health = useQuery(queries.health())
  const backends = useQuery(queries.backends()).data
  const certificates = useQuery(queries.certificates()).data
  const domains = useQuery(queries.domains()).data
  if (!keys || !https || !tcp || health.isPending || (isAdmin && nodes.isPending)) return undefined
  const items = [
    ...(nodes.data ? aboutNodes(nodes.data) : []),
    ...aboutRefused(refused),
    ...aboutBackends(health.data?.addresses ?? [], backends ?? []),
    ...[...https, ...tcp].flatMap(aboutHostports),
    ...https.flatMap(aboutRoutes),
    ...tcp.filter(({ backend }) => !backend?.enabled).map(withoutBackend),
    ...aboutCertificates(certificates ?? []),
    ...aboutDomains(domains ?? []),
    ...aboutOrders(domains ?? []),
    ...aboutKeys(keys),
  ]
  return items.sort((a, b) => Number(a.tone === 'warned') - Number(b.tone === 'warned'))
}

function aboutNodes({ edge_nodes, newest_generation }: Shapes['EdgeNodeList']): AttentionItem[] {
  return edge_nodes.flatMap(({ name, live, applied_generation, refusals, storage_fault }): AttentionItem[] => {
    const item = { id: `node ${name}`, to: `/nodes/${encodeURIComponent(name)}`, action: 'View node' }
    if (!live)
      return [
        {
          ...item,
          tone: 'refused',
          title: <>Node {name} is offline</>,
          detail: 'It has stopped reporting. If it still runs, it keeps enforcing its last known state.',
        },
      ]
    if (storage_fault !== null)
      return [
        {
          ...item,
          tone: 'refused',
          title: <>Node {name} cannot write to its disk</>,
          detail: `It ${storage_fault}. It applies no changes until it can.`,
        },
      ]
    if (refusals.length)
      return [
        {
          ...item,
          tone: 'warned',
          title: <>Node {name} rejected a change</>,
          detail: refusals[0]?.reason ?? '',
        },
      ]
    // A node that is behind by what has just been saved is not news.
    if (newest_generation - applied_generation > 20)
      return [
        {
          ...item,
          tone: 'warned',
          title: <>Node {name} is behind</>,
          detail: `It has applied generation ${applied_generation} of ${newest_generation}.`,
        },
      ]
    return []
  })
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

type Reported = Shapes['BackendAddressHealth']

/** One item for an address, however many nodes report it. */
function aboutBackends(reported: readonly Reported[], backends: readonly Shapes['StaticBackend'][]): AttentionItem[] {
  const faults = reported.filter(({ status }) => status !== 'up')
  const byAddress = Map.groupBy(faults, ({ backend, address }) => `${backend.id} ${address}`)
  return [...byAddress].map(([id, each]) => {
    const [first] = each
    const isDown = each.some(({ status }) => status === 'down')
    const name = backends.find((backend) => backend.id === first?.backend.id)?.description
    return {
      id: `backend ${id}`,
      tone: isDown ? 'refused' : 'warned',
      title: (
        <>
          <span className="mono">{first?.address}</span> {name && `of ${name} `}
          {isDown ? 'is down' : 'fails'} on {each.length === 1 ? `node ${first?.node}` : `${each.length} nodes`}
        </>
      ),
      detail: first?.reason ?? '',
      to: '/backends',
      action: 'View backends',
    }
  })
}

type Edge = { id: string; description?: string; hostports: readonly string[] }
const nameOf = ({ id, description, hostports }: Edge): string => description ?? hostports[0] ?? id

function aboutHostports(edge: Edge & { refused_hostports?: readonly { hostport: string }[] }): AttentionItem[] {
  return (edge.refused_hostports ?? []).map(({ hostport }) => ({
    id: `hostport ${hostport}`,
    tone: 'refused',
    title: (
      <>
        <span className="mono">{hostport}</span> of {nameOf(edge)} is not in force
      </>
    ),
    detail: 'Another account has it, or it is a public suffix.',
    to: `/edges/${edge.id}`,
    action: 'View edge',
  }))
}

function aboutRoutes(edge: Shapes['HttpsEdge']): AttentionItem[] {
  const item = { id: `edge ${edge.id}`, tone: 'warned' as const, to: `/edges/${edge.id}`, action: 'View edge' }
  if (edge.routes.length === 0)
    return [{ ...item, title: <>{nameOf(edge)} has no routes</>, detail: 'Every request to it is refused.' }]
  const bare = edge.routes.filter(({ backend }) => !backend?.enabled)
  if (bare.length === 0) return []
  return [
    {
      ...item,
      title: (
        <>
          {bare.length === 1 ? '1 route' : `${bare.length} routes`} of {nameOf(edge)} without a backend
        </>
      ),
      detail: `Requests to ${bare.map(({ match }) => match).join(', ')} are refused.`,
    },
  ]
}

const withoutBackend = (edge: Edge): AttentionItem => ({
  id: `edge ${edge.id}`,
  tone: 'warned',
  title: <>{nameOf(edge)} has no backend</>,
  detail: 'Every connection to it is refused.',
  to: `/edges/${edge.id}`,
  action: 'View edge',
})

/** One item for all: they are renewed on one page. */
function aboutCertificates(certificates: readonly Shapes['TlsCertificate'][]): AttentionItem[] {
  return (['expired', 'soon'] as const).flatMap((expiry): AttentionItem[] => {
    const found = certificates.filter((each) => each.expiry === expiry)
    if (found.length === 0) return []
    const isOne = found.length === 1
    const verb =
      expiry === 'expired' ? (isOne ? 'has expired' : 'have expired') : isOne ? 'expires soon' : 'expire soon'
    return [
      {
        id: `certificates ${expiry}`,
        tone: expiry === 'expired' ? 'refused' : 'warned',
        title: `${found.length} ${isOne ? 'certificate' : 'certificates'} ${verb}`,
        detail: found
          .map(({ description, subject_common_name, id }) => description ?? subject_common_name ?? id)
          .join(', '),
        to: '/certificates?show=expiring',
        action: 'View certificates',
      },
    ]
  })
}

function aboutDomains(domains: readonly Shapes['ReservedDomain'][]): AttentionItem[] {
  return domains
    .filter(({ verification: { status } }) => status === 'failing' || status === 'lapsed')
    .map(({ id, domain, verification: { status, error } }) => ({
      id: `domain ${id}`,
      tone: status === 'lapsed' ? 'refused' : 'warned',
      title: <>{status === 'lapsed' ? `${domain} has lapsed` : `The TXT record of ${domain} is missing`}</>,
      detail: error ?? 'It takes no new hostports until it is verified again.',
      to: `/domains/${id}`,
      action: 'View domain',
    }))
}

/** Certificates that Gatehouse could not order or renew. */
function aboutOrders(domains: readonly Shapes['ReservedDomain'][]): AttentionItem[] {
  return domains
    .filter((domain) => orderOf(domain)?.isFailed)
    .map(({ id, domain, certificate_management_status: status }) => ({
      id: `order ${id}`,
      tone: status?.renews_at ? 'warned' : 'refused',
      title: (
        <>
          {status?.renews_at ? 'The certificate of' : 'No certificate for'} <span className="mono">{domain}</span>{' '}
          {status?.renews_at ? 'cannot be renewed' : 'was issued'}
        </>
      ),
      detail: status?.provisioning_job?.msg ?? '',
      to: `/domains/${id}`,
      action: 'View domain',
    }))
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
