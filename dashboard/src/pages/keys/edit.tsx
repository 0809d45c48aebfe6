import { $api, answerOf, api } from '../../api/client.ts'
import { useRefresh } from '../../api/queries.ts'
import { Field } from '../../ui/field.tsx'
import { FormDialog } from '../../ui/form_dialog.tsx'
import { useDraft } from '../../ui/use_draft.ts'
import { AccessFields, type AccessValues, presetOf, scopesOf, wordsOf } from './access.tsx'
import { AddressesField } from './addresses.tsx'
import { ExpiryFields, type ExpiryValues, expiresAt } from './expiry.tsx'
import { type ApiKey, nameOf } from './key.tsx'

type Values = AccessValues & ExpiryValues & { description: string; addresses: string }

const valuesOf = ({ description = '', scopes, allowed_cidrs }: ApiKey): Values => ({
  description,
  preset: presetOf(scopes)?.value ?? 'custom',
  scopes: scopes.join(' '),
  addresses: allowed_cidrs.join(' '),
  lifetime: 'keep',
  date: '',
})

/** Only edited fields: sending scopes means granting them, which not every key may. */
function changesOf(before: Values, values: Values) {
  const expires_at = expiresAt(values)
  return {
    ...(values.description !== before.description && { description: values.description }),
    ...((values.preset !== before.preset || values.scopes !== before.scopes) && { scopes: scopesOf(values) }),
    ...(values.addresses !== before.addresses && { allowed_cidrs: wordsOf(values.addresses) }),
    ...(expires_at !== undefined && { expires_at }),
  }
}

export function EditKey({ apiKey, onClose }: { apiKey: ApiKey; onClose: () => void }) {
  const before = valuesOf(apiKey)
  const { values, set, isDirty } = useDraft(before)
  const isAdmin = $api.useQuery('get', '/caller').data?.role === 'admin'
  const refresh = useRefresh()
  return (
    <FormDialog
      title={`Edit ${nameOf(apiKey)}`}
      action="Save key"
      isDirty={isDirty}
      save={() =>
        answerOf(api.PATCH('/api_keys/{id}', { params: { path: { id: apiKey.id } }, body: changesOf(before, values) }))
      }
      onSaved={async () => {
        await refresh('/api_keys')
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
      <AccessFields values={values} onPreset={set('preset')} onScopes={set('scopes')} />
      <AddressesField value={values.addresses} onChange={set('addresses')} />
      <ExpiryFields values={values} onLifetime={set('lifetime')} onDate={set('date')} current={apiKey.expires_at} />
      {!isAdmin && apiKey.expires_at && <p className="hint">Only admins can extend or clear it.</p>}
    </FormDialog>
  )
}
