import { useMutation, useQuery } from '@tanstack/react-query'
import { Link } from 'react-router'
import { queries, useRefresh } from '../../api/queries.ts'
import { LockoutNote } from '../../lockout.tsx'
import { traffic } from '../../traffic.ts'
import { Switch } from '../../ui/switch.tsx'
import { changeRestriction, type Restriction, type Variant } from './change.ts'
import { Evidence } from './evidence.tsx'

type Props = { restriction: Restriction; isAdmin: boolean }

export function RestrictionCard({ restriction, isAdmin }: Props) {
  const { id, description, enforced, ip_policies, type } = restriction
  const policies = useQuery(queries.policies()).data
  const refresh = useRefresh()
  const enforce = useMutation({
    mutationFn: ({ enforced, ...variant }: { enforced: boolean } & Variant) =>
      changeRestriction(id, { enforced }, variant),
    onSuccess: () => refresh('/ip_restrictions'),
  })
  return (
    <article className="card" aria-label={description ?? id}>
      <div className="body columns tight">
        <div className="stack-gap">
          <p>
            Only addresses allowed by{' '}
            {ip_policies.map((policy, index) => (
              <span key={policy.id}>
                {index > 0 && ' and '}
                <Link to={`/policies/${policy.id}`}>
                  {policies?.find((known) => known.id === policy.id)?.description ?? policy.id}
                </Link>
              </span>
            ))}{' '}
            can reach {traffic[type].what}.
          </p>
          <Switch
            isSelected={enforced}
            isDisabled={!isAdmin || enforce.isPending}
            onChange={(wanted) => enforce.mutate({ enforced: wanted })}
          >
            Enforce (refuse all other addresses)
          </Switch>
          {enforce.isError && (
            <LockoutNote
              error={enforce.error}
              isPending={enforce.isPending}
              onRepeat={() => enforce.mutate(enforce.variables)}
              onAllow={(address) =>
                enforce.mutate({
                  enforced: enforce.variables.enforced,
                  allowFirst: { address, policyId: ip_policies[0]?.id ?? '' },
                })
              }
              onInsist={() => enforce.mutate({ enforced: enforce.variables.enforced, allowSelfLockout: true })}
            />
          )}
        </div>
        {/* Which addresses would be refused is for admins. */}
        {isAdmin && <Evidence restriction={restriction} />}
      </div>
    </article>
  )
}
