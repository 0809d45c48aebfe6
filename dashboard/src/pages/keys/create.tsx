import { useState } from 'react'
import { $api, answerOf, api } from '../../api/client.ts'
import { usePeople } from '../../api/people.ts'
import { useRefresh } from '../../api/queries.ts'
import { CardChoice } from '../../ui/card_choice.tsx'
import { Choice } from '../../ui/choice.tsx'
import { Field } from '../../ui/field.tsx'
import { FormDialog } from '../../ui/form_dialog.tsx'
import { useDraft } from '../../ui/use_draft.ts'
import { type Preset, presets, wordsOf } from './access.tsx'
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

type Values = {
  description: string
  metadata: string
  owner: string
  days: string
  preset: Preset
  scopes: string
  addresses: string
}

function createKey({ description, metadata, owner, days, preset, scopes, addresses }: Values) {
  const body = {
    description,
    metadata,
    scopes: preset === 'custom' ? wordsOf(scopes) : [...(presets.find(({ value }) => value === preset)?.scopes ?? [])],
    allowed_cidrs: wordsOf(addresses),
    ...(owner && { owner_id: owner }),
    ...(days && { expires_at: inDays(days) }),
  }
  return answerOf(api.POST('/api_keys', { body }))
}

export function CreateKey({ onClose }: { onClose: () => void }) {
  const caller = $api.useQuery('get', '/caller').data
  const { values, set, isDirty } = useDraft<Values>({
    description: '',
    metadata: '',
    owner: '',
    days: '',
    preset: 'full',
    scopes: '',
    addresses: '',
  })
  const [created, setCreated] = useState<ApiKey>()
  const refresh = useRefresh()
  if (created?.token)
    return <TokenShown title={`Token of ${nameOf(created)}`} token={created.token} onClose={onClose} />
  return (
    <FormDialog
      title="Create API key"
      action="Create API key"
      isDirty={isDirty}
      save={() => createKey(values)}
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
      {caller?.role === 'admin' && <OwnerChoice own={caller.owner_id} value={values.owner} onChange={set('owner')} />}
      <CardChoice label="Access" name="scopes" value={values.preset} onChange={set('preset')} options={presets} />
      {values.preset === 'custom' && (
        <Field
          label="Operations"
          name="scopes"
          mono
          rows={2}
          value={values.scopes}
          onChange={set('scopes')}
          placeholder="*.list ip_checks.create"
          hint="Operation ids and patterns, separated by spaces."
        />
      )}
      <Field
        label="Allowed addresses"
        name="allowed_cidrs"
        mono
        value={values.addresses}
        onChange={set('addresses')}
        placeholder="203.0.113.0/24"
        hint="Ranges from which the key can be used, separated by spaces. Empty: from any address."
      />
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

type OwnerProps = { own: string; value: string; onChange: (owner: string) => void }

function OwnerChoice({ own, value, onChange }: OwnerProps) {
  const people = usePeople() ?? []
  return (
    <Choice
      label="Owner"
      name="owner_id"
      value={value}
      onChange={onChange}
      hint="The key has at most the permissions of its owner. Bots are members."
      options={[
        { value: '', label: 'Yourself' },
        ...people
          .filter(({ id, active }) => active && id !== own)
          .map(({ id, name, kind }) => ({ value: id, label: kind === 'bot' ? `${name} (bot)` : name })),
      ]}
    />
  )
}
