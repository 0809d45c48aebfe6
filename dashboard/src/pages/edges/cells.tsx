import { useQuery } from '@tanstack/react-query'
import { useId } from 'react'
import { answerOf, api } from '../../api/client.ts'
import { queries, useRefresh } from '../../api/queries.ts'
import { FormDialog } from '../../ui/form_dialog.tsx'
import { useFormField } from '../../ui/form_fields.tsx'
import { useDraft } from '../../ui/use_draft.ts'

/** Cells to which an edge can be limited; empty if the account has no choice. */
export function useChoiceOfCells(): readonly string[] {
  const cells = useQuery(queries.cells()).data?.cells ?? []
  return cells.length > 1 ? cells.map(({ name }) => name) : []
}

/** An empty choice means all cells, null in the API. */
export const toCells = (chosen: readonly string[]): string[] | null => (chosen.length > 0 ? [...chosen] : null)

export const ServedBy = ({ cells }: { cells: readonly string[] | null }) => {
  const choice = useChoiceOfCells()
  if (choice.length === 0) return null
  return <span>{`Served by ${(cells ?? choice).join(', ')}${cells ? '' : ' (all cells)'}`}</span>
}

type FieldProps = { chosen: readonly string[]; onChange: (chosen: string[]) => void }

/** Hidden if there is no choice. */
export function CellsField({ chosen, onChange }: FieldProps) {
  const choice = useChoiceOfCells()
  const id = useId()
  const { error, clearError } = useFormField('cells', 'Cells')
  if (choice.length === 0) return null
  return (
    <fieldset className="picker" aria-describedby={`${id}-hint`}>
      <legend className="label">Cells</legend>
      <p id={`${id}-hint`} className="hint">
        Choose the cells whose nodes serve the edge. Without a choice, all cells of the account serve it, including
        those added later.
      </p>
      <div className="picker-list">
        {choice.map((name) => (
          <label key={name} className="check">
            <input
              type="checkbox"
              checked={chosen.includes(name)}
              aria-invalid={error ? true : undefined}
              aria-describedby={error ? `${id}-error` : undefined}
              onChange={({ target }) => {
                clearError()
                onChange(choice.filter((each) => (each === name ? target.checked : chosen.includes(each))))
              }}
            />
            <span>{name}</span>
          </label>
        ))}
      </div>
      {error && (
        <p id={`${id}-error`} className="field-error">
          {error}
        </p>
      )}
    </fieldset>
  )
}

type DialogProps = {
  path: '/edges/tcp/{id}' | '/edges/https/{id}'
  edge: { id: string; cells: readonly string[] | null }
  onClose: () => void
}

export function EditCells({ path, edge, onClose }: DialogProps) {
  const { values, set, isDirty } = useDraft<{ cells: string[] }>({ cells: [...(edge.cells ?? [])] })
  const refresh = useRefresh()
  return (
    <FormDialog
      title="Edit cells"
      action="Save cells"
      isDirty={isDirty}
      save={() =>
        answerOf(api.PATCH(path, { params: { path: { id: edge.id } }, body: { cells: toCells(values.cells) } }))
      }
      canDraft
      onSaved={async () => {
        await refresh('/edges')
        onClose()
      }}
      onClose={onClose}
    >
      <CellsField chosen={values.cells} onChange={set('cells')} />
      <p className="hint">
        Traffic that reaches the nodes of other cells is refused once they have applied the change.
      </p>
    </FormDialog>
  )
}
