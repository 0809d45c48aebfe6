import { useQuery } from '@tanstack/react-query'
import { matches } from '../../../../src/kernel/scopes.ts'
import { queries } from '../../api/queries.ts'
import type { Webhook } from '../webhooks/webhook.tsx'

/** Destinations of alerts. Undefined if unknown, as for everyone but admins. */
export function useDestinations(isAdmin: boolean): { data: Webhook[] | undefined; error: unknown } {
  const { data, error } = useQuery({ ...queries.webhooks(), enabled: isAdmin })
  return {
    error,
    data: data?.filter(
      ({ enabled, operations }) => enabled && operations.some((pattern) => matches(pattern, 'alerts.fire')),
    ),
  }
}
