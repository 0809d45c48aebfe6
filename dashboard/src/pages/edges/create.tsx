import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { useNavigate } from 'react-router'
import { answerOf, api } from '../../api/client.ts'
import { Button } from '../../ui/button.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { Field } from '../../ui/field.tsx'
import { ProblemNote } from '../../ui/problem.tsx'

const wordsOf = (text: string): string[] => text.split(/[\s,]+/).filter(Boolean)

export function CreateEdge({ kind, onClose }: { kind: 'tcp' | 'https'; onClose: () => void }) {
  const [hostports, setHostports] = useState('')
  const [description, setDescription] = useState('')
  const navigate = useNavigate()
  const client = useQueryClient()
  const create = useMutation({
    mutationFn: () =>
      answerOf(
        api.POST(kind === 'tcp' ? '/edges/tcp' : '/edges/https', {
          body: { hostports: wordsOf(hostports), description },
        }),
      ),
    onSuccess: async ({ id }) => {
      await client.invalidateQueries({ queryKey: ['edges'] })
      navigate(`/edges/${id}`)
    },
  })
  return (
    <Dialog title={kind === 'tcp' ? 'Create TCP edge' : 'Create HTTPS edge'} onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          create.mutate()
        }}
      >
        <Field
          label="Hostports"
          mono
          autoFocus
          value={hostports}
          onChange={setHostports}
          placeholder={kind === 'tcp' ? 'db.example:20001' : 'app.example:443'}
          hint="Separate several with spaces. A TCP port or host name belongs to one account of the installation."
        />
        <Field label="Description" value={description} onChange={setDescription} />
        {create.isError && <ProblemNote error={create.error} />}
        <div className="actions">
          <Button onPress={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" isPending={create.isPending}>
            Create edge
          </Button>
        </div>
      </form>
    </Dialog>
  )
}
