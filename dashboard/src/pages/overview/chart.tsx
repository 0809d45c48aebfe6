import { useState } from 'react'
import { Link } from 'react-router'

export type Hour = { at: string; refused: number; warned: number }
export type Mark = { id: string; at: string; text: string; to: string }
type Props = {
  hours: readonly Hour[]
  /** Hours per bar. */
  hoursPerBar: number
  /** 'in the last 24 hours' */
  range: string
  marks: readonly Mark[]
  /** Whether a bar links to the requests of its time: edges keep them for a week, other traffic does not. */
  isLinked: boolean
}

const count = new Intl.NumberFormat('en')
const short = new Intl.NumberFormat('en', { notation: 'compact' })
const day = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' })
const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' })
const height = 96
const step = 40
const width = 26

/** The next round number, for a readable axis: 10, 20, 50, 100… */
export function roundUp(most: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, most)))
  return ([1, 2, 5, 10].find((factor) => factor * power >= most) ?? 10) * power
}

/** Sums up several hours per bar. */
export function inBars(hours: readonly Hour[], hoursPerBar: number): Hour[] {
  const bars: Hour[] = []
  for (const [index, hour] of hours.entries()) {
    const bar = bars.at(-1)
    if (index % hoursPerBar === 0 || !bar) bars.push({ ...hour })
    else {
      bar.refused += hour.refused
      bar.warned += hour.warned
    }
  }
  return bars
}

/** Stacked bars by time. Refusals are filled and warnings hatched, so that they differ without color too. */
export function Chart({ hours: all, hoursPerBar, range, marks, isLinked }: Props) {
  const hours = inBars(all, hoursPerBar)
  const isLong = hoursPerBar > 1
  const [pointed, setPointed] = useState<number>()
  const most = Math.max(2, roundUp(Math.max(...hours.map(({ refused, warned }) => refused + warned))))
  const refused = hours.reduce((sum, hour) => sum + hour.refused, 0)
  const warned = hours.reduce((sum, hour) => sum + hour.warned, 0)
  const total = `${count.format(refused)} refused, ${count.format(warned)} ${warned === 1 ? 'warning' : 'warnings'}`
  return (
    <figure className="chart">
      <div className="axis-y" aria-hidden="true">
        <span>{short.format(most)}</span>
        <span>{short.format(most / 2)}</span>
        <span>0</span>
      </div>
      <div className="plot">
        <svg
          viewBox={`0 0 ${hours.length * step} ${height}`}
          preserveAspectRatio="none"
          role="img"
          aria-label={`Hourly chart: ${total} ${range}. The table below lists every ${hoursPerBar === 1 ? 'hour' : 'bar'}.`}
        >
          <defs>
            <pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
              <rect width="6" height="6" className="hatch-ground" />
              <rect width="2.5" height="6" className="hatch-line" />
            </pattern>
          </defs>
          {[0, height / 2, height].map((y) => (
            <line key={y} x1="0" x2={hours.length * step} y1={y} y2={y} className="grid-line" />
          ))}
          {hours.map((hour, index) => {
            const [red, amber] = [(hour.refused / most) * height, (hour.warned / most) * height]
            const x = index * step + (step - width) / 2
            return (
              <g key={hour.at}>
                <rect x={x} y={height - red} width={width} height={red} className="bar-refused" />
                <rect x={x} y={height - red - amber} width={width} height={amber} className="bar-warned" />
              </g>
            )
          })}
        </svg>
        <div className="bar-links" aria-hidden="true">
          {hours.map((hour, index) => {
            const point = {
              onPointerEnter: () => setPointed(index),
              onPointerLeave: () => setPointed(undefined),
            }
            const to = isLinked ? requestsOf(hour, hoursPerBar) : undefined
            return to ? <Link key={hour.at} tabIndex={-1} to={to} {...point} /> : <span key={hour.at} {...point} />
          })}
        </div>
        <Marks marks={marks} from={Date.parse(hours[0]?.at ?? '')} span={hours.length * hoursPerBar * hourMs} />
        <Tip
          hour={pointed === undefined ? undefined : hours[pointed]}
          hoursPerBar={hoursPerBar}
          place={(pointed ?? 0) / hours.length}
        />
      </div>
      <div className="axis-x" aria-hidden="true">
        {hours
          .filter((_, index) => index % Math.ceil(hours.length / 4) === 0)
          .map(({ at }) => (
            <span key={at}>{(isLong ? day : clock).format(new Date(at))}</span>
          ))}
      </div>
      <details>
        <summary>View as table</summary>
        <HourTable
          hours={hours}
          isLong={isLong}
          linkOf={(hour) => (isLinked ? requestsOf(hour, hoursPerBar) : undefined)}
        />
      </details>
    </figure>
  )
}

const hourMs = 3_600_000
const keptMs = 7 * 24 * hourMs

/** Link to the Traffic page for a bar's time; undefined if those requests are no longer kept. */
function requestsOf({ at }: Hour, hoursPerBar: number): string | undefined {
  const since = Date.parse(at)
  const until = new Date(since + hoursPerBar * hourMs)
  if (until.getTime() < Date.now() - keptMs) return undefined
  return `/traffic?${new URLSearchParams({ since: new Date(since).toISOString(), until: until.toISOString() })}`
}

/** Changes as links, at the time when they were made. Only the latest few, so that flags stay readable. */
export function Marks({ marks, from, span }: { marks: readonly Mark[]; from: number; span: number }) {
  return marks
    .map((mark) => ({ ...mark, place: (Date.parse(mark.at) - from) / span }))
    .filter(({ place }) => place >= 0 && place <= 1)
    .slice(0, 8)
    .map(({ id, at, text, to, place }) => (
      <Link
        key={id}
        className="change-mark"
        style={{ left: `${place * 100}%` }}
        to={to}
        title={`${clock.format(new Date(at))} · ${text}`}
        aria-label={`Change at ${clock.format(new Date(at))}: ${text}`}
      />
    ))
}

type TipProps = { hour: Hour | undefined; hoursPerBar: number; place: number }

function Tip({ hour, hoursPerBar, place }: TipProps) {
  if (!hour) return null
  const side = place < 0.5 ? { left: `calc(${place * 100}% + 44px)` } : { right: `calc(${100 - place * 100}% + 8px)` }
  const until = new Date(Date.parse(hour.at) + hoursPerBar * hourMs)
  return (
    <div className="tip" style={side}>
      <p className="strong">
        {hoursPerBar > 1 && `${day.format(new Date(hour.at))} `}
        {clock.format(new Date(hour.at))} – {clock.format(until)}
      </p>
      <dl>
        <dt>
          <span className="key refused" />
          Refused
        </dt>
        <dd>{count.format(hour.refused)}</dd>
        <dt>
          <span className="key warned" />
          Warned
        </dt>
        <dd>{count.format(hour.warned)}</dd>
      </dl>
    </div>
  )
}

type TableProps = { hours: readonly Hour[]; isLong: boolean; linkOf: (hour: Hour) => string | undefined }

function HourTable({ hours, isLong, linkOf }: TableProps) {
  return (
    <table className="fit">
      <thead>
        <tr>
          <th scope="col">Hour</th>
          <th scope="col" className="number">
            Refused
          </th>
          <th scope="col" className="number">
            Warned
          </th>
        </tr>
      </thead>
      <tbody>
        {hours
          .map((hour) => ({ ...hour, to: linkOf(hour) }))
          .map(({ at, refused, warned, to }) => (
            <tr key={at}>
              <td>{to ? <Link to={to}>{momentOf(at, isLong)}</Link> : momentOf(at, isLong)}</td>
              <td className="number">{count.format(refused)}</td>
              <td className="number">{count.format(warned)}</td>
            </tr>
          ))}
      </tbody>
    </table>
  )
}

const momentOf = (at: string, isLong: boolean): string =>
  `${isLong ? `${day.format(new Date(at))} ` : ''}${clock.format(new Date(at))}`
