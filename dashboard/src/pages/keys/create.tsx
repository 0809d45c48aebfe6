import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { answerOf, api } from '../../api/client.ts'
import { queries } from '../../api/queries.ts'
import { Button } from '../../ui/button.tsx'
import { Choice } from '../../ui/choice.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { Field } from '../../ui/field.tsx'
import { ProblemNote } from '../../ui/problem.tsx'
import { TokenShown } from './token.tsx'

const lifetimes = [
  { value: '', label: 'Never' },
  { value: '1', label: 'In a day' },
  { value: '7', label: 'In a week' },
  { value: '30', label: 'In 30 days' },
  { value: '90', label: 'In 90 days' },
  { value: '365', label: 'In a year' },
]
const inDays = (days: string): string => new Date(Date.now() + Number(days) * 86_400_000).toISOString()

export function CreateKey({ onClose }: { onClose: () => void }) {
  const caller = useQuery(queries.caller()).data
  const people = useQuery(queries.people()).data ?? []
  const [description, setDescription] = useState('')
  const [metadata, setMetadata] = useState('')
  const [owner, setOwner] = useState('')
  const [days, setDays] = useState('')
  const client = useQueryClient()
  const create = useMutation({
    mutationFn: () =>
      answerOf(
        api.POST('/api_keys', {
          body: {
            description,
            metadata,
            ...(owner && { owner_id: owner }),
            ...(days && { expires_at: inDays(days) }),
          },
        }),
      ),
    onSuccess: () => client.invalidateQueries({ queryKey: ['keys'] }),
  })
  if (create.data?.token)
    return (
      <TokenShown title={`Token of ${description || create.data.id}`} token={create.data.token} onClose={onClose} />
    )
  return (
    <Dialog title="Create an API key" onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          create.mutate()
        }}
      >
        <Field
          label="Description"
          autoFocus
          value={description}
          onChange={setDescription}
          placeholder="nightly backup"
          hint="What the key is used for, so that others know what breaks if they delete it."
        />
        {caller?.role === 'admin' && (
          <Choice
            label="Owner"
            value={owner}
            onChange={setOwner}
            hint="The key has the permissions of its owner. Bots are members."
            options={[
              { value: '', label: 'Yourself' },
              ...people
                .filter(({ id, active }) => active && id !== caller.owner_id)
                .map(({ id, name, kind }) => ({ value: id, label: kind === 'bot' ? `${name} (bot)` : name })),
            ]}
          />
        )}
        <Choice label="Expires" value={days} onChange={setDays} options={lifetimes} />
        <details>
          <summary>Metadata</summary>
          <Field
            label="Metadata"
            rows={3}
            mono
            value={metadata}
            onChange={setMetadata}
            hint="Arbitrary data for your own programs. At most 4096 bytes."
          />
        </details>
        {create.isError && <ProblemNote error={create.error} />}
        <div className="actions">
          <Button onPress={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" isPending={create.isPending}>
            Create API key
          </Button>
        </div>
      </form>
    </Dialog>
  )
}
