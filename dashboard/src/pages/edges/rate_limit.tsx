import { useState } from 'react'
import {
  headerKeyPrefix,
  rateLimitDefaults,
  rateLimitKeyFault,
  rateLimitMost,
} from '../../../../src/kernel/edge/rate_limit.ts'
import type { Shapes } from '../../api/client.ts'
import { Choice } from '../../ui/choice.tsx'
import { Field } from '../../ui/field.tsx'
import { Switch } from '../../ui/switch.tsx'
import { useDraft } from '../../ui/use_draft.ts'
import { ModuleDialog, type ModulePlace } from './module_dialog.tsx'
import { ModuleRow } from './module_row.tsx'

type RateLimit = Shapes['RateLimitModule']
type ConnectionLimit = Shapes['ConnectionLimitModule']

export const RateLimitRow = ({ place, module }: { place: ModulePlace; module: RateLimit | null }) => (
  <LimitRow place={place} limit={module && { ...module, count: module.requests }} unit="requests" />
)
export const ConnectionLimitRow = ({ place, module }: { place: ModulePlace; module: ConnectionLimit | null }) => (
  <LimitRow place={place} limit={module && { ...module, count: module.connections }} unit="connections" />
)

/** Common form of both kinds of limits, which differ only in the names of two fields. */
type Limit = {
  enabled: boolean
  count: number
  per_seconds: number
  key: string
  mode: 'enforce' | 'warn'
  scope: 'node' | 'cell'
}
type Unit = 'requests' | 'connections'
type Props = { place: ModulePlace; limit: Limit | null; unit: Unit }

const LimitRow = ({ place, limit, unit }: Props) => (
  <ModuleRow
    title="Rate limit"
    changes="the rate limit"
    place={place}
    module={limit}
    without={<span className="soft">None</span>}
    edit={(onClose) => <EditLimit place={place} limit={limit} unit={unit} onClose={onClose} />}
  >
    {limit && textOf(limit, unit)}
  </ModuleRow>
)

const headerOf = (key: string) => (key.startsWith(headerKeyPrefix) ? key.slice(headerKeyPrefix.length) : undefined)
const sharedBy = (key: string) =>
  key === 'source' ? 'from one address' : headerOf(key) ? `with one ${headerOf(key)}` : 'in all'
const secondsText = (seconds: number) => (seconds === 1 ? 'second' : `${seconds} seconds`)
const textOf = ({ count, per_seconds, key, mode, scope }: Limit, unit: Unit): string =>
  `${count.toLocaleString('en')} ${unit} every ${secondsText(per_seconds)} ${sharedBy(key)}, ${scope === 'cell' ? 'divided among the nodes of a cell' : 'on each node'}${mode === 'warn' ? ': warns only' : ''}`

/** Undefined for anything but a whole number within its bounds. */
function wholeNumber(text: string, most: number): number | undefined {
  const number = /^\d{1,7}$/.test(text) ? Number(text) : 0
  return number >= 1 && number <= most ? number : undefined
}

function EditLimit({ place, limit, unit, onClose }: Props & { onClose: () => void }) {
  const isOnRoute = unit === 'requests'
  const [initial] = useState(() => ({
    count: `${limit?.count ?? ''}`,
    seconds: `${limit?.per_seconds ?? 60}`,
    counted: headerOf(limit?.key ?? '') ? headerKeyPrefix : (limit?.key ?? rateLimitDefaults.key),
    header: headerOf(limit?.key ?? '') ?? '',
    mode: limit?.mode ?? rateLimitDefaults.mode,
    scope: limit?.scope ?? rateLimitDefaults.scope,
    enabled: limit?.enabled ?? true,
  }))
  const { values, set, isDirty } = useDraft<typeof initial>(initial)
  const count = wholeNumber(values.count, rateLimitMost.requests)
  const per_seconds = wholeNumber(values.seconds, rateLimitMost.per_seconds)
  const { counted, header, mode, scope, enabled } = values
  const key = counted === headerKeyPrefix ? `${counted}${header.trim()}` : counted
  const shared = per_seconds && { per_seconds, mode, enabled, scope }
  const faultOf = (text: string, number: number | undefined, most: number) =>
    text && !number ? `It must be a number from 1 to ${most.toLocaleString('en')}.` : undefined
  const fields = (
    <>
      <Field
        label={isOnRoute ? 'Requests' : 'Connections'}
        name={unit}
        value={values.count}
        onChange={set('count')}
        placeholder="100"
        error={faultOf(values.count, count, rateLimitMost.requests)}
      />
      <Field
        label="Every … seconds"
        name="per_seconds"
        value={values.seconds}
        onChange={set('seconds')}
        error={faultOf(values.seconds, per_seconds, rateLimitMost.per_seconds)}
      />
      <CountedFor
        value={counted}
        onChange={set('counted')}
        header={header}
        onHeader={set('header')}
        isOnRoute={isOnRoute}
      />
      <Choice
        label="The limit is that of"
        name="scope"
        value={scope}
        onChange={(chosen) => set('scope')(chosen as Limit['scope'])}
        options={[
          { value: 'node', label: 'Each edge node' },
          { value: 'cell', label: 'A cell: divided by the number of its nodes' },
        ]}
      />
      <Choice
        label={`${isOnRoute ? 'Requests' : 'Connections'} beyond it`}
        name="mode"
        value={mode}
        onChange={(chosen) => set('mode')(chosen as Limit['mode'])}
        options={[
          { value: 'enforce', label: isOnRoute ? 'Answer 429' : 'Close them' },
          { value: 'warn', label: 'Let them pass, and record a warning' },
        ]}
      />
      <Switch isSelected={enabled} onChange={set('enabled')}>
        Apply to traffic
      </Switch>
    </>
  )
  const common = { title: `Rate limit of ${place.name}`, place, isSet: limit !== null, isDirty, onClose }
  return isOnRoute ? (
    <ModuleDialog
      {...common}
      module="rate_limit"
      body={
        count && shared && (!isOnRoute || !rateLimitKeyFault(key)) ? { ...shared, requests: count, key } : undefined
      }
    >
      {fields}
    </ModuleDialog>
  ) : (
    <ModuleDialog
      {...common}
      module="connection_limit"
      body={count && shared ? { ...shared, connections: count, key: key as ConnectionLimit['key'] } : undefined}
    >
      {fields}
    </ModuleDialog>
  )
}

type CountedForProps = {
  value: string
  onChange: (value: string) => void
  header: string
  onHeader: (value: string) => void
  isOnRoute: boolean
}
function CountedFor({ value, onChange, header, onHeader, isOnRoute }: CountedForProps) {
  const isHeader = value === headerKeyPrefix
  const fault = header.trim() && rateLimitKeyFault(`${headerKeyPrefix}${header.trim()}`)
  return (
    <>
      <Choice
        label="Counted for"
        name="key"
        value={value}
        onChange={onChange}
        options={[
          { value: 'source', label: 'Each client address' },
          { value: isOnRoute ? 'route' : 'edge', label: 'All clients together' },
          ...(isOnRoute ? [{ value: headerKeyPrefix, label: 'Each value of a header' }] : []),
        ]}
      />
      {isHeader && (
        <Field
          label="Header"
          value={header}
          onChange={onHeader}
          placeholder="X-Api-Key"
          hint="Requests without it count for the client's address."
          error={
            fault ? 'It must be a header that clients may send, with a name of letters, digits and hyphens.' : undefined
          }
        />
      )}
    </>
  )
}
