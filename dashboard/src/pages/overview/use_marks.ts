import { useQuery } from '@tanstack/react-query'
import { $api } from '../../api/client.ts'
import { queries } from '../../api/queries.ts'
import { deedOf, subjectOf } from '../audit/describe.ts'
import type { Mark } from './chart.tsx'

const refusing = /^ip_(policies\.replace|policy_rules|restrictions)|ip_restriction/
/** Besides those: what can change how much is answered, and how fast. */
const forwarding = /edges|backends|certificates|domains|change_sets/

/** Changes that can change who is refused, or all that traffic may show, newest first. Only admins can list changes. */
export function useMarks(what: 'refusals' | 'all' = 'refusals'): Mark[] {
  const isAdmin = $api.useQuery('get', '/caller').data?.role === 'admin'
  const events = useQuery({ ...queries.changes(), enabled: isAdmin, staleTime: 30_000 }).data
  return (events?.audit_events ?? [])
    .filter(({ operation }) => refusing.test(operation) || (what === 'all' && forwarding.test(operation)))
    .map((event) => ({
      id: event.id,
      at: event.created_at,
      text: `${deedOf(event.operation)} ${subjectOf(event)}`,
      to: `/audit?resource=${event.resource_id}`,
    }))
}
