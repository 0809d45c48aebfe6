import { $api } from '../../api/client.ts'
import { deedOf, subjectOf } from '../audit/describe.ts'
import type { Mark } from './chart.tsx'

/** Changes that can change who is refused, newest first. Only admins can list changes. */
export function useMarks(): Mark[] {
  const isAdmin = $api.useQuery('get', '/caller').data?.role === 'admin'
  const events = $api.useQuery(
    'get',
    '/audit_events',
    { params: { query: { limit: 100 } } },
    { enabled: isAdmin, staleTime: 30_000 },
  ).data
  return (events?.audit_events ?? [])
    .filter(({ operation }) => /^ip_(policies\.replace|policy_rules|restrictions)|ip_restriction/.test(operation))
    .map((event) => ({
      id: event.id,
      at: event.created_at,
      text: `${deedOf(event.operation)} ${subjectOf(event)}`,
      to: `/audit?resource=${event.resource_id}`,
    }))
}
