import { useMutation, useQueryClient } from '@tanstack/react-query'
import { answerOf, api, type Shapes } from '../../api/client.ts'

export type Restriction = Shapes['IpRestriction']
type Change = { enforced?: boolean; ip_policy_ids?: string[]; description?: string }
type Attempt = { change: Change; allowSelfLockout?: boolean; allowFirst?: { address: string; policyId: string } }

/** Changes a restriction; on the way, if asked to, allows an address in one of its policies. */
export function useChange(restriction: Restriction, onSaved?: () => void) {
  const client = useQueryClient()
  return useMutation({
    mutationFn: async ({ change, allowSelfLockout, allowFirst }: Attempt) => {
      if (allowFirst) await allowAddress(allowFirst)
      return answerOf(
        api.PATCH('/ip_restrictions/{id}', {
          params: { path: { id: restriction.id }, query: allowSelfLockout ? { allow_self_lockout: true } : {} },
          body: change,
        }),
      )
    },
    onSuccess: async () => {
      await client.invalidateQueries({ queryKey: ['restrictions'] })
      onSaved?.()
    },
  })
}

export const allowAddress = ({ address, policyId }: { address: string; policyId: string }) =>
  answerOf(
    api.POST('/ip_policy_rules', {
      body: { ip_policy_id: policyId, action: 'allow', cidr: address, description: 'so as not to lock myself out' },
    }),
  )
