import { useNavigate } from 'react-router'
import { type Api, answerOf, api } from '../../api/client.ts'
import { useRefresh } from '../../api/queries.ts'
import { TrialImpact } from '../../change_impact.tsx'
import { traffic } from '../../traffic.ts'
import { Confirm } from '../../ui/confirm.tsx'
import type { Restriction } from './change.ts'

export function DeleteRestriction({ restriction, onClose }: { restriction: Restriction; onClose: () => void }) {
  const navigate = useNavigate()
  const refresh = useRefresh()
  const name = restriction.description ?? restriction.id
  const remove = (on: Api) => answerOf(on.DELETE('/ip_restrictions/{id}', { params: { path: { id: restriction.id } } }))
  return (
    <Confirm
      canDraft
      title={`Delete ${name}?`}
      typeToConfirm={restriction.enforced ? name : undefined}
      action="Delete restriction"
      act={() => remove(api)}
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
      <TrialImpact of={[restriction.id, 'delete']} change={remove} />
    </Confirm>
  )
}
