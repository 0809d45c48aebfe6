import { useState } from 'react'
import { $api, answerOf, api } from '../../api/client.ts'
import { usePeople } from '../../api/people.ts'
import { useRefresh } from '../../api/queries.ts'
import { Choice } from '../../ui/choice.tsx'
import { Field } from '../../ui/field.tsx'
import { FormDialog } from '../../ui/form_dialog.tsx'
import { useDraft } from '../../ui/use_draft.ts'
import { type ApiKey, nameOf } from './key.tsx'
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
  const caller = $api.useQuery('get', '/caller').data
  const people = usePeople() ?? []
  const { values, set, isDirty } = useDraft({ description: '', metadata: '', owner: '', days: '' })
  const [created, setCreated] = useState<ApiKey>()
  const refresh = useRefresh()
  const create = () => {
    const { description, metadata, owner, days } = values
    const body = { description, metadata, ...(owner && { owner_id: owner }), ...(days && { expires_at: inDays(days) }) }
    return answerOf(api.POST('/api_keys', { body }))
  }
  if (created?.token)
    return <TokenShown title={`Token of ${nameOf(created)}`} token={created.token} onClose={onClose} />
  return (
    <FormDialog
      title="Create API key"
      action="Create API key"
      isDirty={isDirty}
      save={create}
      onSaved={(key) => {
        setCreated(key)
        return refresh('/api_keys')
      }}
      onClose={onClose}
    >
      <Field
        label="Description"
        name="description"
        autoFocus
        value={values.description}
        onChange={set('description')}
        placeholder="nightly backup"
        hint="What the key is used for, so that others know what breaks if they delete it."
      />
      {caller?.role === 'admin' && (
        <Choice
          label="Owner"
          name="owner_id"
          value={values.owner}
          onChange={set('owner')}
          hint="The key has the permissions of its owner. Bots are members."
          options={[
            { value: '', label: 'Yourself' },
            ...people
              .filter(({ id, active }) => active && id !== caller.owner_id)
              .map(({ id, name, kind }) => ({ value: id, label: kind === 'bot' ? `${name} (bot)` : name })),
          ]}
        />
      )}
      <Choice label="Expires" name="expires_at" value={values.days} onChange={set('days')} options={lifetimes} />
      <details>
        <summary>Metadata</summary>
        <Field
          label="Metadata"
          name="metadata"
          rows={3}
          mono
          value={values.metadata}
          onChange={set('metadata')}
          hint="Arbitrary data for your own programs. At most 4096 bytes."
        />
      </details>
    </FormDialog>
  )
}
