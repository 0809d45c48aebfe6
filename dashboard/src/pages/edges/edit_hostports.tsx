import { answerOf, api } from '../../api/client.ts'
import { useRefresh } from '../../api/queries.ts'
import { Field } from '../../ui/field.tsx'
import { FormDialog } from '../../ui/form_dialog.tsx'
import { useDraft } from '../../ui/use_draft.ts'
import { wordsOf } from './create.tsx'

type Props = {
  path: '/edges/tcp/{id}' | '/edges/https/{id}'
  edge: { id: string; hostports: readonly string[] }
  onClose: () => void
}

export function EditHostports({ path, edge, onClose }: Props) {
  const { values, set, isDirty } = useDraft({ hostports: edge.hostports.join('\n') })
  const refresh = useRefresh()
  return (
    <FormDialog
      title="Edit hostports"
      action="Save hostports"
      isDirty={isDirty}
      save={() =>
        answerOf(api.PATCH(path, { params: { path: { id: edge.id } }, body: { hostports: wordsOf(values.hostports) } }))
      }
      canDraft
      onSaved={async () => {
        await refresh('/edges')
        onClose()
      }}
      onClose={onClose}
    >
      <Field
        label="Hostports"
        name="hostports"
        mono
        autoFocus
        rows={4}
        value={values.hostports}
        onChange={set('hostports')}
        hint="One per line. Traffic to a hostport that you remove is refused as soon as nodes have applied the change."
      />
    </FormDialog>
  )
}
