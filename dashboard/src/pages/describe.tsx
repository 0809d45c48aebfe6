import { useQueryClient } from '@tanstack/react-query'
import { answerOf, api } from '../api/client.ts'
import { Field } from '../ui/field.tsx'
import { FormDialog } from '../ui/form_dialog.tsx'
import { useDraft } from '../ui/use_draft.ts'

type Described =
  | '/ip_policies/{id}'
  | '/ip_restrictions/{id}'
  | '/edges/tcp/{id}'
  | '/edges/https/{id}'
  | '/backends/static/{id}'
type Props = {
  path: Described
  what: { id: string; description?: string; metadata?: string }
  onClose: () => void
}

/** Edits description and metadata, common to all resources. */
export function Describe({ path, what, onClose }: Props) {
  const former = { description: what.description ?? '', metadata: what.metadata ?? '' }
  const { values, set, isDirty } = useDraft(former)
  // Sends only edited fields: someone else may have changed the other one meanwhile.
  const body = {
    ...(values.description !== former.description && { description: values.description }),
    ...(values.metadata !== former.metadata && { metadata: values.metadata }),
  }
  const client = useQueryClient()
  return (
    <FormDialog
      title="Edit description"
      action="Save"
      isDirty={isDirty}
      save={() => answerOf(api.PATCH(path, { params: { path: { id: what.id } }, body }))}
      canDraft
      onSaved={async () => {
        await client.invalidateQueries()
        onClose()
      }}
      onClose={onClose}
    >
      <Field
        label="Description"
        name="description"
        autoFocus
        value={values.description}
        onChange={set('description')}
      />
      <Field
        label="Metadata"
        name="metadata"
        rows={3}
        mono
        value={values.metadata}
        onChange={set('metadata')}
        hint="For use by your own programs."
      />
    </FormDialog>
  )
}
