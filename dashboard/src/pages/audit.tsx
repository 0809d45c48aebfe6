import { useMemo } from 'react'
import { parseCidr } from '../../../src/kernel/ip/cidr.ts'
import { usePeople } from '../api/people.ts'
import { Choice } from '../ui/choice.tsx'
import { Field } from '../ui/field.tsx'
import { PageHeader } from '../ui/page_header.tsx'
import { useTyped } from '../ui/use_typed.ts'
import { useUrlState } from '../ui/use_url_state.ts'
import { ChangeList } from './audit/list.tsx'

const hourMs = 60 * 60 * 1_000
/** In days, except the first. */
const periods = [
  { value: '', label: 'Any time' },
  { value: 'hour', label: 'Last hour' },
  { value: '1', label: 'Last day' },
  { value: '7', label: 'Last week' },
  { value: '30', label: 'Last 30 days' },
]
const operations = [
  { value: '', label: 'All changes' },
  { value: '*.create', label: 'Created' },
  { value: '*.update', label: 'Changed' },
  { value: '*.delete', label: 'Deleted' },
  { value: 'dashboard_session.*', label: 'Sign-ins' },
]

export function Audit() {
  const people = usePeople() ?? []
  const [owner, setOwner] = useUrlState<string>('by', '')
  const [resource, setResource] = useUrlState<string>('resource', '')
  const [kind, setKind] = useUrlState<string>('operation', '')
  const [address, setAddress] = useUrlState<string>('from', '')
  const [period, setPeriod] = useUrlState<string>('since', '')
  const cidr = parseCidr(address.trim()).cidr && address.trim()
  const filters = useMemo(
    () => ({
      ...(kind && { operation: kind }),
      ...(cidr && { source_ip: cidr }),
      ...(period && {
        since: new Date(Date.now() - (period === 'hour' ? 1 : Number(period) * 24) * hourMs).toISOString(),
      }),
    }),
    [kind, cidr, period],
  )
  const resourceId = /^[a-z]+_[0-9a-z]{26}$/.test(resource.trim()) ? resource.trim() : undefined
  return (
    <>
      <PageHeader
        title="Audit log"
        summary="Every change, recorded in the same transaction as the change itself. Entries cannot be edited."
      />
      <div className="bar filters">
        <Choice
          label="User or bot"
          value={owner}
          onChange={setOwner}
          options={[
            { value: '', label: 'Everyone' },
            ...people.map(({ id, name, kind }) => ({ value: id, label: kind === 'bot' ? `${name} (bot)` : name })),
          ]}
        />
        <Choice label="Time" value={period} onChange={setPeriod} options={periods} />
        <Field
          label="From address"
          mono
          {...useTyped(address, setAddress)}
          placeholder="203.0.113.0/24"
          error={address.trim() && !cidr ? 'Enter an address or a CIDR range.' : undefined}
        />
        <Field
          label="Resource"
          mono
          {...useTyped(resource, setResource)}
          placeholder="An id: ak_…, ipp_…, edghts_…"
          error={
            resource.trim() && !resourceId ? 'Enter a complete id, such as ak_ followed by 26 characters.' : undefined
          }
        />
      </div>
      <fieldset className="chips">
        <legend className="for-readers">Operations</legend>
        {operations.map(({ value, label }) => (
          <button
            key={value}
            type="button"
            className="chip"
            aria-pressed={kind === value}
            onClick={() => setKind(value)}
          >
            {label}
          </button>
        ))}
      </fieldset>
      <ChangeList ownerId={owner || undefined} resourceId={resourceId} filters={filters} />
    </>
  )
}
