import { useNavigate } from 'react-router'
import { answerOf, api } from '../../api/client.ts'
import { useRefresh } from '../../api/queries.ts'
import { Field } from '../../ui/field.tsx'
import { FormDialog } from '../../ui/form_dialog.tsx'
import { useDraft } from '../../ui/use_draft.ts'
import { CellsField, toCells } from './cells.tsx'

export const wordsOf = (text: string): string[] => text.split(/[\s,]+/).filter(Boolean)

type Draft = { hostports: string; description: string; cells: string[] }

export function CreateEdge({ kind, onClose }: { kind: 'tcp' | 'https'; onClose: () => void }) {
  const { values, set, isDirty } = useDraft<Draft>({ hostports: '', description: '', cells: [] })
  const navigate = useNavigate()
  const refresh = useRefresh()
  const create = () =>
    answerOf(
      api.POST(kind === 'tcp' ? '/edges/tcp' : '/edges/https', {
        body: {
          hostports: wordsOf(values.hostports),
          description: values.description,
          cells: toCells(values.cells),
        },
      }),
    )
  return (
    <FormDialog
      title={kind === 'tcp' ? 'Create TCP edge' : 'Create HTTPS edge'}
      action="Create edge"
      isDirty={isDirty}
      save={create}
      canDraft
      onSaved={async ({ id }) => {
        await refresh('/edges')
        navigate(`/edges/${id}`)
      }}
      onClose={onClose}
    >
      <Field
        label="Hostports"
        name="hostports"
        mono
        autoFocus
        value={values.hostports}
        onChange={set('hostports')}
        placeholder={kind === 'tcp' ? 'db.example:20001' : 'app.example:443'}
        hint="Separate several with spaces. A TCP port or host name belongs to one account of the installation."
      />
      <Field label="Description" name="description" value={values.description} onChange={set('description')} />
      <CellsField chosen={values.cells} onChange={set('cells')} />
    </FormDialog>
  )
}
