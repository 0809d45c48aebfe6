import { useNavigate } from 'react-router'
import { type Api, answerOf, api } from '../../api/client.ts'
import { useRefresh } from '../../api/queries.ts'
import { TrialImpact } from '../../change_impact.tsx'
import { PolicyPicker } from '../../policy_picker.tsx'
import { type TrafficType, traffic, trafficTypes } from '../../traffic.ts'
import { Choice } from '../../ui/choice.tsx'
import { Field } from '../../ui/field.tsx'
import { FormDialog } from '../../ui/form_dialog.tsx'
import { useDraft } from '../../ui/use_draft.ts'

type Values = { description: string; type: TrafficType; ip_policy_ids: string[] }

/** Starts unenforced, so that its warnings show what it would refuse. */
export function CreateRestriction({ onClose }: { onClose: () => void }) {
  const { values, set, isDirty } = useDraft<Values>({ description: '', type: 'api', ip_policy_ids: [] })
  const refresh = useRefresh()
  const navigate = useNavigate()
  const { description, ...decisive } = values
  const create = (on: Api, body: Partial<Values> & typeof decisive) =>
    answerOf(on.POST('/ip_restrictions', { body: { ...body, enforced: false } }))
  return (
    <FormDialog
      title="Create restriction"
      action="Create with warnings only"
      isDirty={isDirty}
      isReady={values.ip_policy_ids.length > 0}
      save={() => create(api, values)}
      canDraft
      onSaved={async ({ id }) => {
        await refresh('/ip_restrictions')
        onClose()
        navigate(`/restrictions/${id}`)
      }}
      onClose={onClose}
    >
      <Field
        label="Description"
        name="description"
        autoFocus
        value={description}
        onChange={set('description')}
        placeholder="offices only"
      />
      <Choice
        label="For"
        name="type"
        value={values.type}
        onChange={set('type')}
        options={trafficTypes.map((value) => ({ value, label: `${traffic[value].title}: ${traffic[value].what}` }))}
      />
      <PolicyPicker name="ip_policy_ids" chosen={values.ip_policy_ids} onChange={set('ip_policy_ids')} />
      <TrialImpact of={[decisive]} change={values.ip_policy_ids.length ? (on) => create(on, decisive) : undefined} />
      <p className="note plain">
        The restriction starts with warnings only. Enforce it once you have reviewed what it would refuse.
      </p>
    </FormDialog>
  )
}
