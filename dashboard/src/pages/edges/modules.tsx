import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { Link } from 'react-router'
import type { Shapes } from '../../api/client.ts'
import { queries } from '../../api/queries.ts'
import { PolicyPicker } from '../../policy_picker.tsx'
import { Badge } from '../../ui/badge.tsx'
import { Button } from '../../ui/button.tsx'
import { Choice } from '../../ui/choice.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { Switch } from '../../ui/switch.tsx'
import { ModuleForm, type ModulePlace } from './module_form.tsx'

type Backend = Shapes['BackendModule'] | null
type Restriction = Shapes['IpRestrictionModule'] | null

export function BackendRow({ place, module }: { place: ModulePlace; module: Backend }) {
  const backends = useQuery(queries.backends()).data
  const [isOpen, setOpen] = useState(false)
  const backend = backends?.find(({ id }) => id === module?.backend.id)
  return (
    <div className="module">
      <h4>Backend</h4>
      <div>
        {module ? (
          <>
            <span className="mono">{backend?.address ?? module.backend.id}</span>{' '}
            <span className="soft">{backend?.description}</span> <Enabled module={module} />
          </>
        ) : (
          <Badge tone="warned">No backend: traffic is refused</Badge>
        )}
      </div>
      <Button aria-label={`Change the backend of ${place.name}`} onPress={() => setOpen(true)}>
        Change
      </Button>
      {isOpen && <EditBackend place={place} module={module} onClose={() => setOpen(false)} />}
    </div>
  )
}

function EditBackend({ place, module, onClose }: { place: ModulePlace; module: Backend; onClose: () => void }) {
  const backends = useQuery(queries.backends()).data ?? []
  const [backendId, setBackendId] = useState(module?.backend.id ?? '')
  const [enabled, setEnabled] = useState(module?.enabled ?? true)
  return (
    <Dialog title={`Backend of ${place.name}`} onClose={onClose}>
      <ModuleForm
        place={place}
        module="backend"
        isSet={module !== null}
        body={backendId ? { backend_id: backendId, enabled } : undefined}
        onClose={onClose}
      >
        <Choice
          label="Backend"
          value={backendId}
          onChange={setBackendId}
          options={[
            { value: '', label: 'Choose…' },
            ...backends.map(({ id, address, description }) => ({
              value: id,
              label: description ? `${address} (${description})` : address,
            })),
          ]}
        />
        <Switch isSelected={enabled} onChange={setEnabled}>
          Forward traffic to this backend
        </Switch>
      </ModuleForm>
    </Dialog>
  )
}

export function RestrictionRow({ place, module }: { place: ModulePlace; module: Restriction }) {
  const policies = useQuery(queries.policies()).data
  const [isOpen, setOpen] = useState(false)
  return (
    <div className="module">
      <h4>Addresses</h4>
      <div>
        {module ? (
          <>
            Only addresses that{' '}
            {module.ip_policies.map(({ id }, index) => (
              <span key={id}>
                {index > 0 && ' and '}
                <Link to={`/policies/${id}`}>{policies?.find((policy) => policy.id === id)?.description ?? id}</Link>
              </span>
            ))}{' '}
            {module.ip_policies.length > 1 ? 'allow' : 'allows'} <Enabled module={module} />
          </>
        ) : (
          <Badge tone="neutral">Open to every address</Badge>
        )}
      </div>
      <span className="actions">
        <Link
          className="button plain"
          aria-label={`Check an address against ${place.name}`}
          to={`/check?target=${place.routeId ?? place.edgeId}`}
        >
          Check
        </Link>
        <Button aria-label={`Change allowed addresses of ${place.name}`} onPress={() => setOpen(true)}>
          Change
        </Button>
      </span>
      {isOpen && <EditRestrictionModule place={place} module={module} onClose={() => setOpen(false)} />}
    </div>
  )
}

type EditProps = { place: ModulePlace; module: Restriction; onClose: () => void }

function EditRestrictionModule({ place, module, onClose }: EditProps) {
  const [chosen, setChosen] = useState(module?.ip_policies.map(({ id }) => id) ?? [])
  const [enabled, setEnabled] = useState(module?.enabled ?? true)
  return (
    <Dialog title={`Allowed addresses of ${place.name}`} onClose={onClose}>
      <ModuleForm
        place={place}
        module="ip_restriction"
        isSet={module !== null}
        body={chosen.length ? { ip_policy_ids: chosen, enabled } : undefined}
        onClose={onClose}
      >
        <PolicyPicker chosen={chosen} onChange={setChosen} />
        <Switch isSelected={enabled} onChange={setEnabled}>
          Refuse all other addresses
        </Switch>
      </ModuleForm>
    </Dialog>
  )
}

export function Enabled({ module }: { module: { enabled: boolean } }) {
  return module.enabled ? null : <Badge tone="warned">Off</Badge>
}
