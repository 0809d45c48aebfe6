import { useNavigate } from 'react-router'
import { answerOf, api } from '../../api/client.ts'
import { useRefresh } from '../../api/queries.ts'
import { Confirm } from '../../ui/confirm.tsx'
import { Field } from '../../ui/field.tsx'
import { FormDialog } from '../../ui/form_dialog.tsx'
import { useDraft } from '../../ui/use_draft.ts'
import type { Domain } from './domain.tsx'

type Closing = { onClose: () => void }

/** Leads to the domain's page, which shows the required DNS record. */
export function ReserveDomain({ onClose }: Closing) {
  const { values, set, isDirty } = useDraft({ domain: '', description: '' })
  const refresh = useRefresh()
  const navigate = useNavigate()
  return (
    <FormDialog
      title="Reserve domain"
      action="Reserve domain"
      isDirty={isDirty}
      save={() => answerOf(api.POST('/reserved_domains', { body: { ...values, domain: values.domain.trim() } }))}
      onSaved={async ({ id }) => {
        await refresh('/reserved_domains')
        onClose()
        navigate(`/domains/${id}`)
      }}
      onClose={onClose}
    >
      <Field
        label="Domain"
        name="domain"
        mono
        autoFocus
        value={values.domain}
        onChange={set('domain')}
        placeholder="example.com"
        hint="It covers every name under it. The next page shows the TXT record that proves it is yours."
      />
      <Field label="Description" name="description" value={values.description} onChange={set('description')} />
    </FormDialog>
  )
}

export function DeleteDomain({ domain, onDeleted, onClose }: Closing & { domain: Domain; onDeleted: () => void }) {
  const refresh = useRefresh()
  return (
    <Confirm
      title={`Delete ${domain.domain}?`}
      typeToConfirm={domain.domain}
      action="Delete domain"
      act={() => answerOf(api.DELETE('/reserved_domains/{id}', { params: { path: { id: domain.id } } }))}
      onDone={async () => {
        onClose()
        onDeleted()
        await refresh('/reserved_domains')
      }}
      onClose={onClose}
    >
      <p>
        The account no longer holds the domain, and another account can prove it. To reserve it again takes a new
        record.
      </p>
    </Confirm>
  )
}
