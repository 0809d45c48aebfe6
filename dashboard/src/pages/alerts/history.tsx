import { useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { queries } from '../../api/queries.ts'
import { DataTable } from '../../ui/data_table.tsx'
import { Loaded } from '../../ui/loading.tsx'
import { Section } from '../../ui/section.tsx'
import { State } from '../../ui/state.tsx'
import { Empty } from '../../ui/states.tsx'
import type { Column } from '../../ui/table_model.ts'
import { RangeControl } from '../statistics/range_control.tsx'
import { useRange } from '../statistics/use_range.ts'
import type { Names } from './use_names.ts'
import { type Alert, lasted, momentText } from './words.ts'

/** Alerts that fired within the range, with their duration. */
export function History({ names }: { names: Names }) {
  const { range } = useRange()
  const alerts = useQuery(queries.alerts())
  const now = alerts.dataUpdatedAt
  const columns = useMemo(() => columnsFor(names, { since: now - range.ms, now }), [names, now, range.ms])
  return (
    <Section title="History" action={<RangeControl />}>
      <Loaded query={alerts} lines={4}>
        {(all) => {
          const shown = all.filter((alert) => alert.fired_at !== null && endOf(alert, now) >= now - range.ms)
          return shown.length === 0 ? (
            <div className="frame">
              <Empty title={`No alert fired ${range.words}`} />
            </div>
          ) : (
            <DataTable label="History" rows={shown} keyOf={({ id }) => id} columns={columns} isTwoLine />
          )
        }}
      </Loaded>
    </Section>
  )
}

const endOf = ({ resolved_at }: Alert, now: number): number => (resolved_at === null ? now : Date.parse(resolved_at))
const startOf = ({ since }: Alert): number => Date.parse(since)

const columnsFor = (names: Names, range: { since: number; now: number }): Column<Alert>[] => [
  {
    title: 'Alert',
    className: 'a1',
    width: '40%',
    isRowHead: true,
    sortBy: names.titleOf,
    cell: (alert) => (
      <span className="two">
        <span>{names.titleOf(alert)}</span>
        <small>{alert.reason}</small>
      </span>
    ),
  },
  {
    title: 'When',
    className: 'c1 low',
    width: '28%',
    head: (
      <span className="ends">
        <span>{momentText(new Date(range.since).toISOString())}</span>
        <span>now</span>
      </span>
    ),
    cell: (alert) => <Bar alert={alert} {...range} />,
  },
  {
    title: 'Began',
    className: 'b1',
    sortBy: startOf,
    cell: ({ since }) => <time dateTime={since}>{momentText(since)}</time>,
  },
  {
    title: 'Lasted',
    className: 'b2',
    sortBy: (alert) => endOf(alert, range.now) - startOf(alert),
    cell: (alert) =>
      alert.resolved_at === null ? (
        <State health={alert.unclear_since ? 'unknown' : 'down'}>still firing</State>
      ) : (
        <span className="soft">{lasted(endOf(alert, range.now) - startOf(alert))}</span>
      ),
  },
]

/** The alert's time within the range. Hidden from screen readers, because the text beside it says the same. */
function Bar({ alert, since, now }: { alert: Alert; since: number; now: number }) {
  const [from, to] = [Math.max(startOf(alert), since), Math.max(endOf(alert, now), since)]
  // Wide enough to be visible, and inside the chart.
  const width = Math.max(1, ((to - from) / (now - since)) * 100)
  const x = Math.min(100 - width, ((from - since) / (now - since)) * 100)
  return (
    <svg className="span-bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
      <rect className="hit-ground" width="100" height="10" />
      <rect className={alert.resolved_at === null ? 'bar-refused' : 'hit-fill'} x={x} width={width} height="10" />
    </svg>
  )
}
