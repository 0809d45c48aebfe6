import { useQuery } from '@tanstack/react-query'
import { parseAddress } from '../../../src/kernel/ip/address.ts'
import type { Shapes } from '../api/client.ts'
import { usePeople } from '../api/people.ts'
import { queries } from '../api/queries.ts'
import { requestIdIn } from '../pages/traffic/log.ts'
import { visiblePages } from '../pages.tsx'
import { traffic } from '../traffic.ts'
import type { IconName } from '../ui/icons.tsx'
import type { Status } from '../ui/status.tsx'
import { currentRows, isUnread } from '../ui/unread.ts'

/** `open`: the dialog that the page opens on arrival; see use_open_on_arrival.ts. */
export type Finding = {
  id: string
  icon: IconName
  label: string
  mono?: boolean
  detail?: string
  to: string
  open?: string
  /** Status, for kinds that have one. */
  status?: Status | undefined
}
type Section = { title: string; findings: Finding[] }

const shownPerSection = 6

/** Search results in sections, best first. */
export function useFindings(text: string, caller: Shapes['Caller']): Section[] {
  const resources = useResources(caller.role === 'admin')
  const wanted = text.trim().toLowerCase()
  const matches = ({ label, detail = '', id }: Finding): boolean =>
    `${label} ${detail} ${id}`.toLowerCase().includes(wanted)
  const sections = [
    { title: 'Requests', findings: aboutRequest(text) },
    { title: 'Address', findings: aboutAddress(text.trim()) },
    { title: 'Pages', findings: pagesFor(caller).filter(matches) },
    { title: 'Resources', findings: wanted ? resources.filter(matches).sort(byStart(wanted)) : [] },
    { title: 'Rollouts', findings: aboutRollout(text.trim()) },
    { title: 'Actions', findings: actionsFor(caller).filter(matches) },
    { title: 'Audit log', findings: caller.role === 'admin' ? aboutId(text.trim()) : [] },
  ]
  return sections
    .filter(({ findings }) => findings.length > 0)
    .map(({ title, findings }) => ({ title, findings: findings.slice(0, title === 'Pages' ? 20 : shownPerSection) }))
}

/** Matches at the start come before other matches. */
const byStart =
  (wanted: string) =>
  (a: Finding, b: Finding): number =>
    Number(b.label.toLowerCase().startsWith(wanted)) - Number(a.label.toLowerCase().startsWith(wanted))

const pagesFor = ({ role }: Shapes['Caller']): Finding[] =>
  visiblePages(role).map(({ path, title, icon }) => ({ id: path, icon, label: title, to: path }))

function actionsFor({ role }: Shapes['Caller']): Finding[] {
  if (role === 'viewer') return []
  const action = (label: string, to: string, open: string): Finding => ({ id: label, icon: 'plus', label, to, open })
  return [
    action('Create API key', '/keys', 'create'),
    action('Create IP policy', '/policies', 'create'),
    ...(role === 'admin' ? [action('Create IP restriction', '/restrictions', 'create')] : []),
    action('Publish an application', '/edges', 'publish'),
    action('Create HTTPS edge', '/edges', 'https'),
    action('Create TCP edge', '/edges', 'tcp'),
    action('Create backend', '/backends', 'create'),
    action('Reserve domain', '/domains', 'create'),
    action('Upload certificate', '/certificates', 'create'),
    ...(role === 'admin' ? [action('Create alert rule', '/alerts', 'create')] : []),
    ...(role === 'admin' ? [action('Create user', '/people', 'user'), action('Create bot', '/people', 'bot')] : []),
  ]
}

/** The id that a client got with its refusal. */
function aboutRequest(text: string): Finding[] {
  const id = requestIdIn(text)
  return id ? [{ id: 'request', icon: 'traffic', label: id, mono: true, detail: 'Request', to: `/traffic/${id}` }] : []
}

function aboutAddress(text: string): Finding[] {
  if (!parseAddress(text)) return []
  const ip = encodeURIComponent(text)
  const checks: Finding[] = (['endpoints', 'api', 'dashboard'] as const).map((type) => ({
    id: `check ${type}`,
    icon: 'check',
    label: `Check ${text}`,
    detail: `can reach ${traffic[type].what}?`,
    to: `/check?ip=${ip}&target=${type}`,
  }))
  return [...checks, { id: 'traffic', icon: 'traffic', label: `Traffic of ${text}`, to: `/traffic?from=${ip}` }]
}

const aboutRollout = (text: string): Finding[] =>
  /^ro_[0-9a-z]{26}$/.test(text)
    ? [{ id: 'rollout', icon: 'rollouts', label: text, mono: true, detail: 'Rollout', to: `/rollouts/${text}` }]
    : []

const aboutId = (text: string): Finding[] =>
  /^[a-z]+_[0-9a-z]{26}$/.test(text)
    ? [{ id: 'audit', icon: 'audit', label: `Changes of ${text}`, mono: true, to: `/audit?resource=${text}` }]
    : []

function useResources(isAdmin: boolean): Finding[] {
  const fresh = { staleTime: 30_000 }
  const policies = useQuery({ ...queries.policies(), ...fresh }).data ?? []
  const restrictions = useQuery({ ...queries.restrictions(), ...fresh }).data ?? []
  const https = currentRows(useQuery({ ...queries.httpsEdges(), ...fresh }))
  const tcp = currentRows(useQuery({ ...queries.tcpEdges(), ...fresh }))
  const backends = currentRows(useQuery({ ...queries.backends(), ...fresh }))
  const domains = currentRows(useQuery({ ...queries.domains(), ...fresh }))
  const certificates = currentRows(useQuery({ ...queries.certificates(), ...fresh }))
  const weighted = currentRows(useQuery({ ...queries.weightedBackends(), ...fresh }))
  const failover = currentRows(useQuery({ ...queries.failoverBackends(), ...fresh }))
  const responses = useQuery({ ...queries.responseBackends(), ...fresh }).data ?? []
  const webhooks = currentRows(useQuery({ ...queries.webhooks(), ...fresh, enabled: isAdmin }))
  const found = useQuery({ ...queries.nodes(), enabled: isAdmin })
  const nodes = currentRows({ data: found.data?.edge_nodes, isError: found.isError })
  const keys = useQuery({ ...queries.keys(), ...fresh }).data ?? []
  const people = usePeople() ?? []
  const edges = [...https, ...tcp]
  return [
    ...policies.map(
      ({ id, description }): Finding => ({
        id,
        icon: 'policies',
        label: description ?? id,
        detail: 'IP policy',
        to: `/policies/${id}`,
      }),
    ),
    ...restrictions.map(
      ({ id, description }): Finding => ({
        id,
        icon: 'restrictions',
        label: description ?? id,
        detail: 'IP restriction',
        to: `/restrictions/${id}`,
      }),
    ),
    ...domains.map(
      ({ id, domain, status }): Finding => ({
        id,
        icon: 'domains',
        label: domain,
        detail: 'Domain',
        to: `/domains/${id}`,
        status,
      }),
    ),
    ...certificates.map(
      ({ id, description, subject_alternative_names: { dns_names }, status }): Finding => ({
        id,
        status,
        icon: 'certificates',
        label: description ?? dns_names[0] ?? id,
        detail: 'Certificate',
        to: `/certificates/${id}`,
      }),
    ),
    ...edges.map(
      ({ id, description, hostports, status }): Finding => ({
        id,
        status,
        icon: 'edges',
        label: description ?? hostports[0] ?? id,
        detail: hostports.join(', '),
        to: `/edges/${id}`,
      }),
    ),
    ...https.flatMap((edge) =>
      edge.routes.map(
        ({ id, match, status }): Finding => ({
          id,
          status: isUnread(edge.status) ? edge.status : status,
          icon: 'edges',
          label: `${edge.hostports[0] ?? ''}${match}`,
          mono: true,
          detail: 'Route',
          to: `/edges/${edge.id}`,
        }),
      ),
    ),
    ...backends.map(
      ({ id, address, description, status }): Finding => ({
        id,
        status,
        icon: 'backends',
        label: address,
        mono: true,
        detail: description ?? 'Backend',
        to: `/backends/${id}`,
      }),
    ),
    ...[...weighted, ...failover].map(
      ({ id, description, status }): Finding => ({
        ...{ id, status, icon: 'backends', label: description ?? id },
        ...{ detail: 'Backend group', to: `/backends/${id}` },
      }),
    ),
    ...responses.map(
      ({ id, description, status_code }): Finding => ({
        ...{ id, icon: 'backends', label: description ?? `HTTP response ${status_code}` },
        ...{ detail: 'HTTP response', to: `/backends/${id}` },
      }),
    ),
    ...nodes.map(
      ({ name, status }): Finding => ({
        ...{ id: `node ${name}`, status, icon: 'nodes', label: name },
        ...{ detail: 'Edge node', to: `/nodes/${encodeURIComponent(name)}` },
      }),
    ),
    ...keys.map(
      ({ id, description }): Finding => ({
        ...{ id, icon: 'keys', label: description ?? id },
        ...{ detail: 'API key', to: `/keys/${id}` },
      }),
    ),
    ...people.map(
      ({ id, name, kind }): Finding => ({
        ...{ id, icon: 'people', label: name },
        ...{ detail: kind === 'bot' ? 'Bot' : 'User', to: `/people/${id}` },
      }),
    ),
    ...webhooks.map(
      ({ id, description, url, status }): Finding => ({
        ...{ id, status, icon: 'webhooks', label: description ?? url },
        ...{ detail: 'Webhook', to: `/webhooks/${id}` },
      }),
    ),
  ]
}
