import { useQuery } from '@tanstack/react-query'
import { queries } from '../../api/queries.ts'
import { Choice } from '../../ui/choice.tsx'
import { Icon } from '../../ui/icons.tsx'
import { Toolbar } from '../../ui/toolbar.tsx'
import type { UrlFilter } from './use_filter.ts'
import { verdicts } from './words.ts'

const chips = [
  { value: '', label: 'All' },
  ...(['refused', 'warned', 'limited', 'failed', 'allowed'] as const).map((value) => ({
    value,
    label: verdicts[value].word,
  })),
]
const statuses = [
  { value: '', label: 'Any status' },
  ...['2xx', '3xx', '4xx', '5xx'].map((value) => ({ value, label: value })),
]
/** Longer lists do not help; the edge page links here with the edge selected. */
const mostOffered = 500

export function Filters({ filter }: { filter: UrlFilter }) {
  const { value, set, fault } = filter
  return (
    <>
      <Toolbar
        search={value('from')}
        onSearch={(from) => set({ from })}
        placeholder="Address, range or request ID"
        chips={chips}
        chosen={value('show')}
        onChoose={(show) => set({ show })}
      >
        <Choice
          label="Edge"
          labelHidden
          value={value('edge')}
          onChange={(edge) => set({ edge })}
          options={useEdges(value('edge'))}
        />
        <Choice
          label="Status"
          labelHidden
          value={value('status')}
          onChange={(status) => set({ status })}
          options={statuses}
        />
        <Period filter={filter} />
      </Toolbar>
      {fault && (
        <p className="fine" role="status">
          {fault}
        </p>
      )}
    </>
  )
}

const moment = (text: string): string => `${text.slice(5, 10)} ${text.slice(11, 16)}`

/** A past period, as linked from a chart. */
function Period({ filter: { asked, set } }: { filter: UrlFilter }) {
  if (!asked.since && !asked.until) return null
  return (
    <span className="chip set">
      Time
      <b className="strong">
        {asked.since ? moment(asked.since) : ''} – {asked.until ? moment(asked.until) : 'now'}
      </b>
      <button
        type="button"
        className="more small"
        aria-label="Remove time filter"
        onClick={() => set({ since: '', until: '' })}
      >
        <Icon name="close" />
      </button>
    </span>
  )
}

function useEdges(chosen: string): { value: string; label: string }[] {
  const https = useQuery({ ...queries.httpsEdges(), staleTime: 30_000 }).data ?? []
  const tcp = useQuery({ ...queries.tcpEdges(), staleTime: 30_000 }).data ?? []
  const all = [...https, ...tcp].map(({ id, description, hostports }) => ({
    value: id,
    label: description || hostports[0] || id,
  }))
  const offered = all.filter(({ value }, index) => index < mostOffered || value === chosen)
  const isKnown = !chosen || offered.some(({ value }) => value === chosen)
  return [{ value: '', label: 'All edges' }, ...(isKnown ? [] : [{ value: chosen, label: chosen }]), ...offered]
}
