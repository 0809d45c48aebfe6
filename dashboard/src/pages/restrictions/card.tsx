import { useMutation, useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { Link, useNavigate } from 'react-router'
import { answerOf, api } from '../../api/client.ts'
import { queries, useRefresh } from '../../api/queries.ts'
import { LockoutNote } from '../../lockout.tsx'
import { traffic } from '../../traffic.ts'
import { Badge } from '../../ui/badge.tsx'
import { Confirm } from '../../ui/confirm.tsx'
import { MoreMenu } from '../../ui/more_menu.tsx'
import { Switch } from '../../ui/switch.tsx'
import { changeRestriction, type Restriction, type Variant } from './change.ts'
import { EditRestriction } from './edit.tsx'
import { Evidence } from './evidence.tsx'

type Props = { restriction: Restriction; isAdmin: boolean }

export function RestrictionCard({ restriction, isAdmin }: Props) {
  const { id, description, enforced, ip_policies, type } = restriction
  const policies = useQuery(queries.policies()).data
  const [open, setOpen] = useState<'edit' | 'delete'>()
  const refresh = useRefresh()
  const enforce = useMutation({
    mutationFn: ({ enforced, ...variant }: { enforced: boolean } & Variant) =>
      changeRestriction(id, { enforced }, variant),
    onSuccess: () => refresh('/ip_restrictions'),
  })
  const close = () => setOpen(undefined)
  return (
    <article className="card" aria-label={description ?? id}>
      <header>
        <h3>
          <Link className="row-link" to={`/restrictions/${id}`}>
            {description ?? id}
          </Link>{' '}
          {enforced ? <Badge tone="allowed">Enforced</Badge> : <Badge tone="warned">Warns only</Badge>}
        </h3>
        {isAdmin && (
          <MoreMenu
            label={`Actions for ${description ?? id}`}
            groups={() => [
              {
                entries: [
                  { label: 'Edit…', icon: 'edit', onAction: () => setOpen('edit') },
                  { label: 'Delete restriction…', icon: 'trash', isDanger: true, onAction: () => setOpen('delete') },
                ],
              },
            ]}
          />
        )}
      </header>
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
      {open === 'edit' && <EditRestriction restriction={restriction} onClose={close} />}
      {open === 'delete' && <DeleteRestriction restriction={restriction} onClose={close} />}
    </article>
  )
}

function DeleteRestriction({ restriction, onClose }: { restriction: Restriction; onClose: () => void }) {
  const navigate = useNavigate()
  const refresh = useRefresh()
  const name = restriction.description ?? restriction.id
  return (
    <Confirm
      title={`Delete ${name}?`}
      typeToConfirm={restriction.enforced ? name : undefined}
      action="Delete restriction"
      act={() => answerOf(api.DELETE('/ip_restrictions/{id}', { params: { path: { id: restriction.id } } }))}
      onDone={async () => {
        navigate('/restrictions')
        await refresh('/ip_restrictions')
      }}
      onClose={onClose}
    >
      <p>
        {restriction.enforced
          ? `This restriction is enforced. Once it is deleted, addresses that it refuses can reach ${traffic[restriction.type].what}, unless another restriction refuses them.`
          : 'This restriction only warns, so traffic does not change. Its counts are deleted too.'}
      </p>
    </Confirm>
  )
}
