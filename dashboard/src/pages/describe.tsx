import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { answerOf, api } from '../api/client.ts'
import { Button } from '../ui/button.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { Field } from '../ui/field.tsx'
import { ProblemNote } from '../ui/problem.tsx'

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

/** Description and metadata, which all resources have alike. */
export function Describe({ path, what, onClose }: Props) {
  const [description, setDescription] = useState(what.description ?? '')
  const [metadata, setMetadata] = useState(what.metadata ?? '')
  const client = useQueryClient()
  const save = useMutation({
    mutationFn: () => answerOf(api.PATCH(path, { params: { path: { id: what.id } }, body: { description, metadata } })),
    onSuccess: async () => {
      await client.invalidateQueries()
      onClose()
    },
  })
  return (
    <Dialog title="Edit description" onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          save.mutate()
        }}
      >
        <Field label="Description" autoFocus value={description} onChange={setDescription} />
        <Field
          label="Metadata"
          rows={3}
          mono
          value={metadata}
          onChange={setMetadata}
          hint="For use by your own programs."
        />
        {save.isError && <ProblemNote error={save.error} />}
        <div className="actions">
          <Button onPress={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" isPending={save.isPending}>
            Save
          </Button>
        </div>
      </form>
    </Dialog>
  )
}
