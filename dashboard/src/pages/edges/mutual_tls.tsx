import { useState } from 'react'
import { defaultMutualTlsMode, type MutualTlsMode } from '../../../../src/kernel/edge/mutual_tls.ts'
import type { Shapes } from '../../api/client.ts'
import { Choice } from '../../ui/choice.tsx'
import { Field } from '../../ui/field.tsx'
import { Switch } from '../../ui/switch.tsx'
import { useDraft } from '../../ui/use_draft.ts'
import { ModuleDialog, type ModulePlace } from './module_dialog.tsx'
import { ModuleRow } from './module_row.tsx'

type Props = { place: ModulePlace; module: Shapes['MutualTlsModule'] | null }

export const MutualTlsRow = ({ place, module }: Props) => (
  <ModuleRow
    title="Client certificates"
    changes="the client certificates"
    place={place}
    module={module}
    without={<span className="soft">Not asked for</span>}
    edit={(onClose) => <EditMutualTls place={place} module={module} onClose={onClose} />}
  >
    {module && (
      <span>
        {module.mode === 'required' ? 'Required' : 'Optional'}, issued by{' '}
        {module.authorities.map(({ subject, sha256_fingerprint, not_after }) => (
          <span key={sha256_fingerprint} className="mono" title={`SHA-256 ${sha256_fingerprint}, until ${not_after}`}>
            {subject || sha256_fingerprint.slice(0, 16)}{' '}
          </span>
        ))}
      </span>
    )}
  </ModuleRow>
)

const certificate = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g

function EditMutualTls({ place, module, onClose }: Props & { onClose: () => void }) {
  const [initial] = useState(() => ({
    pem: (module?.certificate_authorities ?? []).map((each) => each.trimEnd()).join('\n'),
    mode: module?.mode ?? defaultMutualTlsMode,
    enabled: module?.enabled ?? true,
  }))
  const { values, set, isDirty } = useDraft<typeof initial>(initial)
  const found = values.pem.match(certificate) ?? []
  const rest = values.pem.replaceAll(certificate, '').trim()
  const fault = rest ? 'It must be certificates in PEM form, one after the other.' : undefined
  const body = {
    certificate_authorities: found.map((each) => `${each}\n`),
    mode: values.mode,
    enabled: values.enabled,
  }
  return (
    <ModuleDialog
      title={`Client certificates of ${place.name}`}
      wide
      place={place}
      module="mutual_tls"
      isSet={module !== null}
      isDirty={isDirty}
      body={found.length === 0 || fault ? undefined : body}
      onClose={onClose}
    >
      <Field
        label="Certificates of the authorities (PEM)"
        name="certificate_authorities"
        mono
        rows={10}
        hint="Those that issue certificates to clients, with their issuers up to the one that issued itself."
        value={values.pem}
        onChange={set('pem')}
        placeholder="-----BEGIN CERTIFICATE-----"
        error={values.pem ? fault : undefined}
      />
      <label className="button plain file">
        Add from a file
        <input
          type="file"
          className="for-readers"
          accept=".pem,.crt,.cer"
          multiple
          onChange={async ({ target }) => {
            const texts = await Promise.all([...(target.files ?? [])].map((file) => file.text()))
            set('pem')([values.pem, ...texts.map((text) => text.trim())].filter(Boolean).join('\n'))
            target.value = ''
          }}
        />
      </label>
      <Choice
        label="Clients without a certificate"
        name="mode"
        value={values.mode}
        onChange={(mode) => set('mode')(mode as MutualTlsMode)}
        options={[
          { value: 'required', label: 'Refuse them' },
          { value: 'optional', label: 'Let them pass, and tell the upstream' },
        ]}
      />
      <Switch isSelected={values.enabled} onChange={set('enabled')}>
        Apply to traffic
      </Switch>
    </ModuleDialog>
  )
}
