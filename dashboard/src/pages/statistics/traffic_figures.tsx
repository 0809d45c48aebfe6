import { keepPreviousData, useQuery } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import type { Shapes } from '../../api/client.ts'
import { queries } from '../../api/queries.ts'
import { Loaded } from '../../ui/loading.tsx'
import { Section } from '../../ui/section.tsx'
import type { Mark } from '../overview/chart.tsx'
import { useMarks } from '../overview/use_marks.ts'
import { RangeControl } from './range_control.tsx'
import { SeriesChart } from './series_chart.tsx'
import { type Range, stepsOf, useRange } from './use_range.ts'

type Data = Shapes['TrafficStatistics']
type Sums = Shapes['TrafficSums']
/** Subject of the figures; empty for the whole account. */
export type Scope = { edge_id?: string; route_id?: string; backend_id?: string }

const count = new Intl.NumberFormat('en')
const short = new Intl.NumberFormat('en', { notation: 'compact' })
const percent = new Intl.NumberFormat('en', { style: 'percent', maximumSignificantDigits: 2 })
const milliseconds = (ms: number): string =>
  ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(ms < 10_000 ? 1 : 0)} s`

const kinds = [
  { kind: 'backend_5xx', name: 'Answered 5xx', className: 'series-1' },
  { kind: 'unreachable', name: 'Unreachable', className: 'series-2' },
  { kind: 'no_response', name: 'No response', className: 'series-3' },
  { kind: 'timeout', name: 'Timed out', className: 'series-4' },
  { kind: 'edge', name: 'By the edge', className: 'series-5' },
] as const
const quantiles = [
  { name: 'p50', className: 'series-1' },
  { name: 'p95', className: 'series-2' },
  { name: 'p99', className: 'series-4' },
] as const

type Props = { scope?: Scope; title?: string; action?: ReactNode }

/** Requests, errors and latency in the URL's range, with the changes made meanwhile. */
export function TrafficFigures({ scope = {}, title = 'Traffic', action }: Props) {
  const { name, range } = useRange()
  const statistics = useQuery({ ...queries.statistics(name, range, scope), placeholderData: keepPreviousData })
  return (
    <Section
      title={title}
      note={range.words}
      action={
        <div className="section-tools">
          {action}
          <RangeControl />
        </div>
      }
    >
      <Loaded query={statistics} lines={6}>
        {(data) => <Shown data={data} range={range} />}
      </Loaded>
    </Section>
  )
}

function Shown({ data, range }: { data: Data; range: Range }) {
  const marks = useMarks('all')
  const [group] = data.groups
  const unknown = unknownIn(data)
  return (
    <>
      {unknown && (
        <p role="status" className="note warned">
          {unknown}
        </p>
      )}
      <div className="frame">
        <Sentences sums={group?.sums} isUnknown={!group && unknown !== undefined} />
        {group && <Charts data={data} range={range} marks={marks} />}
      </div>
    </>
  )
}

/** Why figures are too low or missing. No counts mean zero only if all nodes count. */
function unknownIn({ nodes_not_counting: silent, nodes_with_losses: losing, counted_since, since }: Data) {
  if (silent > 0)
    return `${silent === 1 ? '1 node is silent or does not count' : `${silent} nodes are silent or do not count`} traffic. These figures lack what passes there.`
  if (losing > 0)
    return `${losing === 1 ? '1 node' : `${losing} nodes`} could not count all requests. Figures are too low.`
  if (counted_since > since)
    return `Counted since ${new Date(counted_since).toLocaleString('en-GB')}. Earlier traffic is unknown.`
  return undefined
}

const errorsOf = ({ errors }: Sums): number => kinds.reduce((sum, { kind }) => sum + errors[kind], 0)

function Sentences({ sums, isUnknown }: { sums: Sums | undefined; isUnknown: boolean }) {
  const requests = sums?.requests ?? 0
  const [errors, refused] = [sums ? errorsOf(sums) : 0, (sums?.refused ?? 0) + (sums?.limited ?? 0)]
  const none = isUnknown ? 'nothing was counted' : 'no requests'
  const share = (part: number) => (requests === 0 ? none : `${percent.format(part / requests)} of requests`)
  const latency = sums?.latency_ms
  const figure = (value: number) => (isUnknown ? 'Unknown' : count.format(value))
  return (
    <dl className="stats">
      <Figure name="Requests" value={figure(requests)}>
        and TCP connections that ended
      </Figure>
      <Figure name="Errors" value={figure(errors)}>
        {share(errors)}
      </Figure>
      <Figure name="Refused or limited" value={figure(refused)}>
        {share(refused)}
      </Figure>
      <Figure name="Latency" value={latency ? milliseconds(latency.p50) : isUnknown ? 'Unknown' : '–'}>
        {latency
          ? `p95 ${milliseconds(latency.p95)}, p99 ${milliseconds(latency.p99)}`
          : isUnknown
            ? none
            : 'nothing was answered'}
      </Figure>
    </dl>
  )
}

const Figure = ({ name, value, children }: { name: string; value: string; children: ReactNode }) => (
  <div>
    <dt className="stat-name">{name}</dt>
    <dd className="stat-figure">{value}</dd>
    <dd className="fine">{children}</dd>
  </div>
)

function Charts({ data, range, marks }: { data: Data; range: Range; marks: readonly Mark[] }) {
  const found = new Map(data.groups[0]?.points.map((point) => [Date.parse(point.at), point]))
  const steps = stepsOf(range, Date.parse(data.until))
  const unknownUntil = Date.parse(data.counted_since)
  // A step that ended before counting began is unknown.
  const counted = steps.map((at) => ({ at, point: found.get(at), isKnown: at + range.stepMs > unknownUntil }))
  const figures = (of: (sums: Sums) => number[], size: number) =>
    counted.map(({ at, point, isKnown }) => ({
      at,
      values: point ? of(point) : Array.from({ length: size }, () => (isKnown ? 0 : undefined)),
    }))
  const common = { stepMs: range.stepMs, marks }
  return (
    <>
      <SeriesChart
        {...common}
        title="Requests"
        kind="bars"
        format={(value) => short.format(value)}
        series={[
          { name: 'Passed', className: 'series-1' },
          { name: 'Refused or limited', className: 'bar-refused' },
        ]}
        points={figures(({ requests, refused, limited }) => [requests - refused - limited, refused + limited], 2)}
      />
      <SeriesChart
        {...common}
        title="Errors"
        kind="bars"
        format={(value) => short.format(value)}
        series={kinds}
        points={figures(({ errors }) => kinds.map(({ kind }) => errors[kind]), kinds.length)}
      />
      <SeriesChart
        {...common}
        title="Latency"
        kind="lines"
        format={milliseconds}
        series={quantiles}
        points={counted.map(({ at, point }) => ({
          at,
          values: quantiles.map((each) => point?.latency_ms?.[each.name]),
        }))}
      />
    </>
  )
}
