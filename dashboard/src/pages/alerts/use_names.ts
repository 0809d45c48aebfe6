import { useQuery } from '@tanstack/react-query'
import { queries } from '../../api/queries.ts'
import { useGroups } from '../edges/backend_options.ts'
import { type Alert, type Kind, kinds } from './words.ts'

type Named = { id: string; name: string; to?: string; link?: string }
export type Names = {
  /** Resources that a rule of this kind can name. */
  choices: (kind: Kind) => readonly Named[]
  nameOf: (id: string) => string
  titleOf: (alert: Pick<Alert, 'kind' | 'resource_id'>) => string
  /** The page to look at. Undefined if the person may not see it. */
  placeOf: (alert: Pick<Alert, 'kind' | 'resource_id'>) => { to: string; words: string } | undefined
}

/** Names for ids in alerts and rules, from lists that the sidebar reads anyway. */
export function useNames(isAdmin: boolean): Names {
  const backends = useQuery(queries.backends()).data ?? []
  const groups = useGroups() ?? []
  const certificates = useQuery(queries.certificates()).data ?? []
  const https = useQuery(queries.httpsEdges()).data ?? []
  const tcp = useQuery(queries.tcpEdges()).data ?? []
  const webhooks = useQuery({ ...queries.webhooks(), enabled: isAdmin }).data ?? []
  const ofBackends: Named[] = [
    ...backends.map(({ id, description, address }) => ({ id, name: description ?? address })),
    ...groups.map(({ backend: { id, description } }) => ({ id, name: description ?? id })),
  ].map((each) => ({ ...each, to: `/backends/${each.id}` }))
  const ofCertificates: Named[] = certificates.map(({ id, description, subject_alternative_names: { dns_names } }) => ({
    ...{ id, name: description ?? dns_names[0] ?? id },
    to: `/certificates/${id}`,
  }))
  const ofEdges: Named[] = [
    ...[...https, ...tcp].map(({ id, description, hostports }) => ({
      ...{ id, name: description ?? hostports[0] ?? id },
      to: `/edges/${id}`,
    })),
    ...https.flatMap(({ id: edge, hostports, routes }) =>
      routes.map(({ id, match }) => ({ id, name: `${hostports[0] ?? ''}${match}`, to: `/edges/${edge}` })),
    ),
  ]
  const ofWebhooks: Named[] = webhooks.map(({ id, description, url }) => ({
    ...{ id, name: description ?? url },
    to: `/webhooks/${id}`,
  }))
  const byKind: Partial<Record<Kind, readonly Named[]>> = {
    backend_down: ofBackends,
    certificate_failing: ofCertificates,
    errors: ofEdges,
    webhook_failing: ofWebhooks,
  }
  const all = new Map([...ofBackends, ...ofCertificates, ...ofEdges, ...ofWebhooks].map((each) => [each.id, each]))
  const nameOf = (id: string): string => all.get(id)?.name ?? id
  return {
    choices: (kind) => byKind[kind] ?? [],
    nameOf,
    titleOf: ({ kind, resource_id }) => kinds[kind].title(resource_id === null ? '' : nameOf(resource_id)),
    placeOf({ kind, resource_id: id }) {
      const to = id === null ? undefined : all.get(id)?.to
      if (kind === 'backend_down') return to ? { to, words: 'Open backend' } : undefined
      if (kind === 'certificate_failing') return to ? { to, words: 'Open certificate' } : undefined
      if (kind === 'webhook_failing') return to ? { to, words: 'Open webhook' } : undefined
      if (kind === 'errors')
        return to ? { to, words: 'Open edge' } : { to: '/traffic?show=failed', words: 'Show requests' }
      if (kind === 'rollout_halted') return { to: '/rollouts', words: 'Open rollouts' }
      if (!isAdmin) return undefined
      if (kind === 'newly_refused') return { to: '/newly-refused', words: 'Show addresses' }
      return { to: `/nodes/${encodeURIComponent(id ?? '')}`, words: 'Open node' }
    },
  }
}
