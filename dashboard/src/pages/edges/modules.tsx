import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { Link } from 'react-router'
import type { Shapes } from '../../api/client.ts'
import { useMayChange } from '../../api/may_change.ts'
import { queries } from '../../api/queries.ts'
import { PolicyPicker } from '../../policy_picker.tsx'
import { Badge } from '../../ui/badge.tsx'
import { Button } from '../../ui/button.tsx'
import { Choice } from '../../ui/choice.tsx'
import { Switch } from '../../ui/switch.tsx'
import { useDraft } from '../../ui/use_draft.ts'
import { nameOfGroup, useBackendOptions, useGroups } from './backend_options.ts'
import { ModuleDialog, type ModulePlace } from './module_dialog.tsx'

type Backend = Shapes['BackendModule'] | null
type Restriction = Shapes['IpRestrictionModule'] | null

export function BackendRow({ place, module }: { place: ModulePlace; module: Backend }) {
  const backends = useQuery(queries.backends()).data
  const [isOpen, setOpen] = useState(false)
  const mayChange = useMayChange()
  const backend = backends?.find(({ id }) => id === module?.backend.id)
  const group = useGroups()?.find((each) => each.backend.id === module?.backend.id)
  return (
    <div className="module">
      <h4>Backend</h4>
      <div>
        {module ? (
          <>
            {group ? (
              <span>{nameOfGroup(group)}</span>
            ) : (
              <span className="mono">{backend?.address ?? module.backend.id}</span>
            )}{' '}
            <span className="soft">{backend?.description}</span> <Enabled module={module} />
          </>
        ) : (
          <Badge tone="warned">No backend: traffic is refused</Badge>
        )}
      </div>
      {mayChange && (
        <Button kind="quiet" isSmall aria-label={`Change the backend of ${place.name}`} onPress={() => setOpen(true)}>
          Change
        </Button>
      )}
      {isOpen && <EditBackend place={place} module={module} onClose={() => setOpen(false)} />}
    </div>
  )
}

function EditBackend({ place, module, onClose }: { place: ModulePlace; module: Backend; onClose: () => void }) {
  const options = useBackendOptions(place.routeId ? 'route' : 'tcp')
  const { values, set, isDirty } = useDraft({ backend_id: module?.backend.id ?? '', enabled: module?.enabled ?? true })
  return (
    <ModuleDialog
      title={`Backend of ${place.name}`}
      place={place}
      module="backend"
      isSet={module !== null}
      isDirty={isDirty}
      body={values.backend_id ? values : undefined}
      onClose={onClose}
    >
      <Choice
        label="Backend"
        name="backend_id"
        value={values.backend_id}
        onChange={set('backend_id')}
        options={[{ value: '', label: 'Choose…' }, ...options]}
      />
      <Switch isSelected={values.enabled} onChange={set('enabled')}>
        Forward traffic to this backend
      </Switch>
    </ModuleDialog>
  )
}

export function RestrictionRow({ place, module }: { place: ModulePlace; module: Restriction }) {
  const policies = useQuery(queries.policies()).data
  const [isOpen, setOpen] = useState(false)
  const mayChange = useMayChange()
  return (
    <div className="module">
      <h4>Addresses</h4>
      <div>
        {module ? (
          <>
            Only addresses allowed by{' '}
            {module.ip_policies.map(({ id }, index) => (
              <span key={id}>
                {index > 0 && ' and '}
                <Link to={`/policies/${id}`}>{policies?.find((policy) => policy.id === id)?.description ?? id}</Link>
              </span>
            ))}{' '}
            <Enabled module={module} />
          </>
        ) : (
          <Badge tone="neutral">Open to every address</Badge>
        )}
      </div>
      {mayChange && (
        <Button
          kind="quiet"
          isSmall
          aria-label={`Change allowed addresses of ${place.name}`}
          onPress={() => setOpen(true)}
        >
          Change
        </Button>
      )}
      {isOpen && <EditRestrictionModule place={place} module={module} onClose={() => setOpen(false)} />}
    </div>
  )
}

type EditProps = { place: ModulePlace; module: Restriction; onClose: () => void }

function EditRestrictionModule({ place, module, onClose }: EditProps) {
  const { values, set, isDirty } = useDraft({
    ip_policy_ids: module?.ip_policies.map(({ id }) => id) ?? [],
    enabled: module?.enabled ?? true,
  })
  return (
    <ModuleDialog
      title={`Allowed addresses of ${place.name}`}
      place={place}
      module="ip_restriction"
      isSet={module !== null}
      isDirty={isDirty}
      body={values.ip_policy_ids.length ? values : undefined}
      onClose={onClose}
    >
      <PolicyPicker name="ip_policy_ids" chosen={values.ip_policy_ids} onChange={set('ip_policy_ids')} />
      <Switch isSelected={values.enabled} onChange={set('enabled')}>
        Refuse all other addresses
      </Switch>
    </ModuleDialog>
  )
}

export function Enabled({ module }: { module: { enabled: boolean } }) {
  return module.enabled ? null : <Badge tone="warned">Off</Badge>
}
