import { useNavigate } from 'react-router'
import { answerOf, api } from '../../api/client.ts'
import { useRefresh } from '../../api/queries.ts'
import { Confirm } from '../../ui/confirm.tsx'
import { Field } from '../../ui/field.tsx'
import { FormDialog } from '../../ui/form_dialog.tsx'
import { useDraft } from '../../ui/use_draft.ts'
import { type Certificate, nameOf } from './certificate.tsx'

type Closing = { onClose: () => void }
type Pair = { certificate_pem: string; private_key_pem: string }
const nothing: Pair = { certificate_pem: '', private_key_pem: '' }

/** Both together, because neither works alone. */
function PairFields({ values, set }: { values: Pair; set: (name: keyof Pair) => (text: string) => void }) {
  return (
    <>
      <Field
        label="Certificate chain"
        name="certificate_pem"
        mono
        rows={6}
        autoFocus
        value={values.certificate_pem}
        onChange={set('certificate_pem')}
        placeholder="-----BEGIN CERTIFICATE-----"
        hint="PEM. The certificate of the server first, then each issuer after what it issued."
      />
      <Field
        label="Private key"
        name="private_key_pem"
        mono
        rows={4}
        autoComplete="off"
        value={values.private_key_pem}
        onChange={set('private_key_pem')}
        placeholder="-----BEGIN PRIVATE KEY-----"
        hint="PEM, without a passphrase. It is stored encrypted and never shown again."
      />
    </>
  )
}

export function UploadCertificate({ onClose }: Closing) {
  const { values, set, isDirty } = useDraft({ description: '', ...nothing })
  const refresh = useRefresh()
  const navigate = useNavigate()
  return (
    <FormDialog
      title="Upload certificate"
      action="Upload certificate"
      wide
      isDirty={isDirty}
      isReady={values.certificate_pem !== '' && values.private_key_pem !== ''}
      save={() => answerOf(api.POST('/tls_certificates', { body: values }))}
      onSaved={async ({ id }) => {
        await refresh('/tls_certificates')
        onClose()
        navigate(`/certificates/${id}`)
      }}
      onClose={onClose}
    >
      <PairFields values={values} set={set} />
      <Field label="Description" name="description" value={values.description} onChange={set('description')} />
    </FormDialog>
  )
}

export function ReplaceCertificate({ certificate, onClose }: Closing & { certificate: Certificate }) {
  const { values, set, isDirty } = useDraft(nothing)
  const refresh = useRefresh()
  const path = { params: { path: { id: certificate.id } } }
  return (
    <FormDialog
      title={`Replace ${nameOf(certificate)}`}
      action="Replace certificate"
      wide
      isDirty={isDirty}
      isReady={values.certificate_pem !== '' && values.private_key_pem !== ''}
      save={() => answerOf(api.PATCH('/tls_certificates/{id}', { ...path, body: values }))}
      onSaved={async () => {
        await refresh('/tls_certificates')
        onClose()
      }}
      onClose={onClose}
    >
      <p>Edge nodes switch to the new pair without a gap.</p>
      <PairFields values={values} set={set} />
    </FormDialog>
  )
}

type Deleting = Closing & { certificate: Certificate; onDeleted: () => void }

/** The API refuses it while domains use the certificate, and names them. */
export function DeleteCertificate({ certificate, onDeleted, onClose }: Deleting) {
  const refresh = useRefresh()
  return (
    <Confirm
      title={`Delete ${nameOf(certificate)}?`}
      action="Delete certificate"
      act={() => answerOf(api.DELETE('/tls_certificates/{id}', { params: { path: { id: certificate.id } } }))}
      onDone={async () => {
        onClose()
        onDeleted()
        await refresh('/tls_certificates')
      }}
      onClose={onClose}
    >
      <p>The private key is deleted with it. This cannot be undone.</p>
    </Confirm>
  )
}
