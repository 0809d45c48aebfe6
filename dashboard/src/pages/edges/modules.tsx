import { useQuery } from '@tanstack/react-query'
import { Link } from 'react-router'
import type { Shapes } from '../../api/client.ts'
import { queries } from '../../api/queries.ts'
import { PolicyPicker } from '../../policy_picker.tsx'
import { Badge } from '../../ui/badge.tsx'
import { Choice } from '../../ui/choice.tsx'
import { Switch } from '../../ui/switch.tsx'
import { useDraft } from '../../ui/use_draft.ts'
import { nameOfGroup, useBackendOptions, useGroups } from './backend_options.ts'
import { ModuleDialog, type ModulePlace } from './module_dialog.tsx'
import { ModuleRow } from './module_row.tsx'

type Backend = Shapes['BackendModule'] | null
type Restriction = Shapes['IpRestrictionModule'] | null

export function BackendRow({ place, module }: { place: ModulePlace; module: Backend }) {
  const backends = useQuery(queries.backends()).data
  const backend = backends?.find(({ id }) => id === module?.backend.id)
  const group = useGroups()?.find((each) => each.backend.id === module?.backend.id)
  return (
    <ModuleRow
      title="Backend"
      changes="the backend"
      place={place}
      module={module}
      without={<Badge tone="warned">No backend: traffic is refused</Badge>}
      edit={(onClose) => <EditBackend place={place} module={module} onClose={onClose} />}
    >
      {module && (
        <Link to={`/backends/${module.backend.id}`}>
          {group ? nameOfGroup(group) : (backend?.address ?? module.backend.id)}
        </Link>
      )}{' '}
      <span className="soft">{backend?.description}</span>
    </ModuleRow>
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
  const isWarning = module?.enabled && module.mode === 'warn'
  return (
    <ModuleRow
      title="Addresses"
      changes="allowed addresses"
      place={place}
      module={module}
      without={<Badge tone="neutral">Open to every address</Badge>}
      edit={(onClose) => <EditRestrictionModule place={place} module={module} onClose={onClose} />}
    >
      {isWarning ? 'Every address is let in, and noted unless allowed by' : 'Only addresses allowed by'}{' '}
      {module?.ip_policies.map(({ id }, index) => (
        <span key={id}>
          {index > 0 && ' and '}
          <Link to={`/policies/${id}`}>{policies?.find((policy) => policy.id === id)?.description ?? id}</Link>
        </span>
      ))}{' '}
      {isWarning && <Badge tone="warned">Warns only</Badge>}
    </ModuleRow>
  )
}

type EditProps = { place: ModulePlace; module: Restriction; onClose: () => void }

type Effect = 'enforce' | 'warn' | 'off'
const effects: { value: Effect; label: string }[] = [
  { value: 'enforce', label: 'Refuse them' },
  { value: 'warn', label: 'Warn only: let them in, and note it' },
  { value: 'off', label: 'Let them in, without a note' },
]
const toEffect = (module: Restriction): Effect => (module?.enabled === false ? 'off' : (module?.mode ?? 'enforce'))

function EditRestrictionModule({ place, module, onClose }: EditProps) {
  const { values, set, isDirty } = useDraft({
    ip_policy_ids: module?.ip_policies.map(({ id }) => id) ?? [],
    effect: toEffect(module),
  })
  const { ip_policy_ids, effect } = values
  // Turning it off keeps its previous mode.
  const mode = effect === 'off' ? (module?.mode ?? 'enforce') : effect
  return (
    <ModuleDialog
      title={`Allowed addresses of ${place.name}`}
      place={place}
      module="ip_restriction"
      isSet={module !== null}
      isDirty={isDirty}
      body={ip_policy_ids.length ? { ip_policy_ids, mode, enabled: effect !== 'off' } : undefined}
      onClose={onClose}
    >
      <PolicyPicker name="ip_policy_ids" chosen={ip_policy_ids} onChange={set('ip_policy_ids')} />
      <Choice label="All other addresses" name="mode" value={effect} onChange={set('effect')} options={effects} />
    </ModuleDialog>
  )
}
