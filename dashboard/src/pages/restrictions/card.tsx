import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { Link } from 'react-router'
import { queries, useRefresh } from '../../api/queries.ts'
import { TrialImpact } from '../../change_impact.tsx'
import { LockoutNote } from '../../lockout.tsx'
import { traffic } from '../../traffic.ts'
import { FormDialog } from '../../ui/form_dialog.tsx'
import { Switch } from '../../ui/switch.tsx'
import { changeRestriction, patchRestriction, type Restriction, type Variant } from './change.ts'
import { Evidence } from './evidence.tsx'

type Props = { restriction: Restriction; isAdmin: boolean }

export function RestrictionCard({ restriction, isAdmin }: Props) {
  const { id, description, enforced, ip_policies, type } = restriction
  const policies = useQuery(queries.policies()).data
  const [wanted, setWanted] = useState<boolean>()
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
          <Switch isSelected={enforced} isDisabled={!isAdmin} onChange={setWanted}>
            Enforce (refuse all other addresses)
          </Switch>
          {wanted !== undefined && (
            <Enforce restriction={restriction} enforced={wanted} onClose={() => setWanted(undefined)} />
          )}
        </div>
        {/* Only admins see which addresses would be refused. */}
        {isAdmin && <Evidence restriction={restriction} />}
      </div>
    </article>
  )
}

/** Asks for confirmation with the impact, because it affects everyone at once. */
function Enforce({
  restriction,
  enforced,
  onClose,
}: {
  restriction: Restriction
  enforced: boolean
  onClose: () => void
}) {
  const { id, description, ip_policies } = restriction
  const refresh = useRefresh()
  const name = description ?? id
  return (
    <FormDialog
      title={enforced ? `Enforce ${name}?` : `Only warn with ${name}?`}
      action={enforced ? 'Enforce restriction' : 'Only warn'}
      save={(variant?: Variant) => changeRestriction(id, { enforced }, variant)}
      canDraft
      onSaved={async () => {
        await refresh('/ip_restrictions')
        onClose()
      }}
      onClose={onClose}
      explain={(error, retry, isPending) => (
        <LockoutNote
          error={error}
          isPending={isPending}
          onAllow={(address) => retry({ allowFirst: { address, policyId: ip_policies[0]?.id ?? '' } })}
          onInsist={() => retry({ allowSelfLockout: true })}
        />
      )}
    >
      <p>
        {enforced
          ? 'Addresses that its policies do not allow will be refused.'
          : 'No address will be refused by it any more. Those that it would refuse are recorded.'}
      </p>
      <TrialImpact of={[id, enforced]} change={(on) => patchRestriction(on, id, { enforced })} />
    </FormDialog>
  )
}
