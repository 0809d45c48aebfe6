import { useQuery } from '@tanstack/react-query'
import { answerOf, api } from '../../api/client.ts'
import { queries, useRefresh } from '../../api/queries.ts'
import { Choice } from '../../ui/choice.tsx'
import { FormDialog } from '../../ui/form_dialog.tsx'
import { useDraft } from '../../ui/use_draft.ts'
import { nameOf } from '../certificates/certificate.tsx'
import type { Domain } from './domain.tsx'

const managed = 'managed'
type Draft = { certificate: string; keyType: 'ecdsa' | 'rsa' }

/** A managed certificate, an uploaded one, or none. */
export function ChooseCertificate({ domain, onClose }: { domain: Domain; onClose: () => void }) {
  const certificates = useQuery(queries.certificates()).data ?? []
  const policy = domain.certificate_management_policy
  const { values, set, isDirty } = useDraft<Draft>({
    certificate: policy ? managed : (domain.certificate?.id ?? ''),
    keyType: policy?.private_key_type ?? 'ecdsa',
  })
  const refresh = useRefresh()
  const isManaged = values.certificate === managed
  return (
    <FormDialog
      title={`Certificate of ${domain.domain}`}
      action="Save certificate"
      isDirty={isDirty}
      save={() =>
        answerOf(
          api.PATCH('/reserved_domains/{id}', {
            params: { path: { id: domain.id } },
            body: isManaged
              ? {
                  certificate_management_policy: {
                    authority: policy?.authority ?? 'acme',
                    private_key_type: values.keyType,
                  },
                }
              : {
                  certificate_id: values.certificate || null,
                  ...(policy && { certificate_management_policy: null }),
                },
          }),
        )
      }
      onSaved={async () => {
        await Promise.all([refresh('/reserved_domains'), refresh('/tls_certificates')])
        onClose()
      }}
      onClose={onClose}
    >
      <Choice
        label="Certificate"
        name={isManaged ? 'certificate_management_policy' : 'certificate_id'}
        value={values.certificate}
        onChange={set('certificate')}
        options={[
          { value: managed, label: 'Order and renew automatically' },
          { value: '', label: 'None' },
          ...certificates.map((each) => ({
            value: each.id,
            label: `${nameOf(each)} (until ${each.not_after.slice(0, 10)})`,
          })),
        ]}
        hint={hintFor(isManaged, domain)}
      />
      {isManaged && (
        <Choice
          label="Private key"
          name="certificate_management_policy.private_key_type"
          value={values.keyType}
          onChange={set('keyType')}
          options={[
            { value: 'ecdsa', label: 'ECDSA P-256' },
            { value: 'rsa', label: 'RSA, 2048 bits, for old clients' },
          ]}
          hint="The next certificate gets a key of this type."
        />
      )}
    </FormDialog>
  )
}

function hintFor(isManaged: boolean, { domain, certificate_management_policy: policy }: Domain): string {
  if (isManaged) return `For every name under ${domain} that an HTTPS edge serves.`
  const served = `Served for those of its names that are ${domain} or under it.`
  return policy ? `${served} Saving ends the orders and renewals.` : served
}
