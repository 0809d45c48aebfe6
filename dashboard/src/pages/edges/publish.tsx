import { useQueryClient } from '@tanstack/react-query'
import { useNavigate } from 'react-router'
import { changeTogether } from '../../api/change_together.ts'
import { PolicyPicker } from '../../policy_picker.tsx'
import { Choice } from '../../ui/choice.tsx'
import { Field } from '../../ui/field.tsx'
import { FormDialog } from '../../ui/form_dialog.tsx'
import { Switch } from '../../ui/switch.tsx'
import { useDraft } from '../../ui/use_draft.ts'

type Access = 'everyone' | 'warn' | 'enforce'
type Draft = { host: string; address: string; tls: boolean; access: Access; policies: string[] }

const withPort = (host: string): string => (/:\d+$/.test(host) ? host : `${host}:443`)

/** Creates the server, the edge and the route, or none of them. */
function publish({ host, address, tls, access, policies }: Draft) {
  const [server, edge] = ['{{changes[0].id}}', '{{changes[1].id}}']
  const restriction = access !== 'everyone' && { ip_restriction: { ip_policy_ids: policies, mode: access } }
  return changeTogether(`Publish ${host}`, [
    {
      operation: 'static_backends.create',
      body: { address, description: host, tls: { enabled: tls }, health_check: { type: 'tcp' } },
    },
    { operation: 'https_edges.create', body: { hostports: [withPort(host)] } },
    {
      operation: 'https_edge_routes.create',
      parameters: { edge_id: edge },
      body: { match_type: 'path_prefix', match: '/', backend: { backend_id: server }, ...restriction },
    },
  ])
}

export function PublishApplication({ onClose }: { onClose: () => void }) {
  const { values, set, isDirty } = useDraft<Draft>({
    ...{ host: '', address: '', tls: false, access: 'everyone', policies: [] },
  })
  const navigate = useNavigate()
  const client = useQueryClient()
  const [host, address] = [values.host.trim(), values.address.trim()]
  const isReady = host !== '' && address !== '' && (values.access === 'everyone' || values.policies.length > 0)
  return (
    <FormDialog
      title="Publish an application"
      action="Publish"
      isDirty={isDirty}
      isReady={isReady}
      save={() => publish({ ...values, host, address })}
      canDraft
      onSaved={async ([, edge]) => {
        await client.invalidateQueries()
        onClose()
        if (edge) void navigate(`/edges/${edge}?tab=checklist`)
      }}
      onClose={onClose}
    >
      <Field
        label="Host name"
        name="hostports"
        mono
        autoFocus
        value={values.host}
        onChange={set('host')}
        placeholder="wiki.example"
      />
      <Field
        label="Server"
        name="address"
        mono
        value={values.address}
        onChange={set('address')}
        placeholder="10.0.0.5:8080"
        hint="Where it runs. Edge nodes check every ten seconds whether it accepts connections."
      />
      <Switch isSelected={values.tls} onChange={set('tls')}>
        Connect with TLS and verify the certificate
      </Switch>
      <Choice
        label="Who may reach it"
        name="ip_restriction.mode"
        value={values.access}
        onChange={set('access')}
        options={[
          { value: 'everyone', label: 'Everyone' },
          { value: 'warn', label: 'Some addresses; only warn about others for now' },
          { value: 'enforce', label: 'Some addresses; refuse all others' },
        ]}
      />
      {values.access !== 'everyone' && (
        <PolicyPicker name="ip_restriction.ip_policy_ids" chosen={values.policies} onChange={set('policies')} />
      )}
    </FormDialog>
  )
}
