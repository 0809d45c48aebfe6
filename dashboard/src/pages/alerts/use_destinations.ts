import { useQuery } from '@tanstack/react-query'
import { matches } from '../../../../src/kernel/scopes.ts'
import { queries } from '../../api/queries.ts'
import type { Webhook } from '../webhooks/webhook.tsx'

/** Those that alerts are sent to. Undefined: not known, as it is to all but admins. */
export function useDestinations(isAdmin: boolean): { data: Webhook[] | undefined; error: unknown } {
  const { data, error } = useQuery({ ...queries.webhooks(), enabled: isAdmin })
  return {
    error,
    data: data?.filter(
      ({ enabled, operations }) => enabled && operations.some((pattern) => matches(pattern, 'alerts.fire')),
    ),
  }
}
