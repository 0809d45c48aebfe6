import { useRefresh } from '../../api/queries.ts'
import { TrialImpact } from '../../change_impact.tsx'
import { LockoutNote } from '../../lockout.tsx'
import { PolicyPicker } from '../../policy_picker.tsx'
import { Field } from '../../ui/field.tsx'
import { FormDialog } from '../../ui/form_dialog.tsx'
import { useDraft } from '../../ui/use_draft.ts'
import { changeRestriction, patchRestriction, type Restriction, type Variant } from './change.ts'

export function EditRestriction({ restriction, onClose }: { restriction: Restriction; onClose: () => void }) {
  const policies = restriction.ip_policies.map(({ id }) => id)
  const { values, set, isDirty } = useDraft({
    description: restriction.description ?? '',
    ip_policy_ids: policies,
  })
  const isDecisive = values.ip_policy_ids.join() !== policies.join()
  const [firstPolicy = ''] = values.ip_policy_ids
  const refresh = useRefresh()
  return (
    <FormDialog
      title="Edit restriction"
      action="Save"
      isDirty={isDirty}
      isReady={values.ip_policy_ids.length > 0}
      save={(variant?: Variant) => changeRestriction(restriction.id, values, variant)}
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
          onAllow={(address) => retry({ allowFirst: { address, policyId: firstPolicy } })}
          onInsist={() => retry({ allowSelfLockout: true })}
        />
      )}
    >
      <Field
        label="Description"
        name="description"
        autoFocus
        value={values.description}
        onChange={set('description')}
      />
      <PolicyPicker name="ip_policy_ids" chosen={values.ip_policy_ids} onChange={set('ip_policy_ids')} />
      <TrialImpact
        of={[restriction.id, values.ip_policy_ids]}
        change={
          isDecisive && firstPolicy
            ? (on) => patchRestriction(on, restriction.id, { ip_policy_ids: values.ip_policy_ids })
            : undefined
        }
      />
    </FormDialog>
  )
}
