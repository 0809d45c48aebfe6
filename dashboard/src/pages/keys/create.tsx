import { useState } from 'react'
import { $api, answerOf, api } from '../../api/client.ts'
import { usePeople } from '../../api/people.ts'
import { useRefresh } from '../../api/queries.ts'
import { Choice } from '../../ui/choice.tsx'
import { Field } from '../../ui/field.tsx'
import { FormDialog } from '../../ui/form_dialog.tsx'
import { useDraft } from '../../ui/use_draft.ts'
import { AccessFields, type AccessValues, scopesOf, wordsOf } from './access.tsx'
import { AddressesField } from './addresses.tsx'
import { ExpiryFields, type ExpiryValues, expiresAt } from './expiry.tsx'
import { type ApiKey, nameOf } from './key.tsx'
import { TokenShown } from './token.tsx'

type Values = AccessValues & ExpiryValues & { description: string; metadata: string; owner: string; addresses: string }

function createKey(values: Values) {
  const { description, metadata, owner, addresses } = values
  const expires_at = expiresAt(values)
  const body = {
    description,
    metadata,
    scopes: scopesOf(values),
    allowed_cidrs: wordsOf(addresses),
    ...(owner && { owner_id: owner }),
    ...(expires_at && { expires_at }),
  }
  return answerOf(api.POST('/api_keys', { body }))
}

/** `ownerId`: owner of the page on which it is opened. */
export function CreateKey({ ownerId = '', onClose }: { ownerId?: string; onClose: () => void }) {
  const caller = $api.useQuery('get', '/caller').data
  const { values, set, isDirty } = useDraft<Values>({
    description: '',
    metadata: '',
    owner: ownerId,
    lifetime: '90',
    date: '',
    preset: 'read',
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
      <div className="field-row">
        <Field
          label="Description"
          name="description"
          autoFocus
          value={values.description}
          onChange={set('description')}
          placeholder="nightly backup"
          hint="What uses this key?"
        />
        {caller?.role === 'admin' && <OwnerChoice own={caller.owner_id} value={values.owner} onChange={set('owner')} />}
      </div>
      <AccessFields values={values} onPreset={set('preset')} onScopes={set('scopes')} />
      <AddressesField value={values.addresses} onChange={set('addresses')} />
      <ExpiryFields values={values} onLifetime={set('lifetime')} onDate={set('date')} />
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
      hint="The key can do at most what its owner can."
      options={[
        { value: '', label: 'Yourself' },
        ...people
          .filter(({ id, active }) => active && id !== own)
          .map(({ id, name, kind }) => ({ value: id, label: kind === 'bot' ? `${name} (bot)` : name })),
      ]}
    />
  )
}
