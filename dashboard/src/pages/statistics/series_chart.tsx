import { useState } from 'react'
import { type Mark, Marks, roundUp } from '../overview/chart.tsx'

/** `className` is a color of chart.css. */
export type Series = { name: string; className: string }
/** One value per series; undefined means no value, which is not zero. */
export type Point = { at: number; values: readonly (number | undefined)[] }
type Props = {
  title: string
  series: readonly Series[]
  points: readonly Point[]
  stepMs: number
  kind: 'bars' | 'lines'
  format: (value: number) => string
  marks: readonly Mark[]
}

const height = 96
const day = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' })
const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' })
const hourMs = 3_600_000
const momentOf = (at: number, isLong: boolean): string =>
  isLong ? `${day.format(at)} ${clock.format(at)}` : clock.format(at)

/** Values over time: stacked bars, or one line per series. */
export function SeriesChart({ title, series, points, stepMs, kind, format, marks }: Props) {
  const [pointed, setPointed] = useState<number>()
  const isLong = stepMs * points.length > 24 * hourMs
  const topOf = ({ values }: Point) =>
    kind === 'bars' ? values.reduce<number>((sum, value = 0) => sum + value, 0) : Math.max(...values.map((v = 0) => v))
  const most = Math.max(2, roundUp(Math.max(0, ...points.map(topOf))))
  const shown = pointed === undefined ? undefined : points[pointed]
  return (
    <figure className="chart" aria-label={title}>
      <figcaption className="legend">
        <b>{title}</b>
        {series.map(({ name, className }) => (
          <span key={name}>
            <span className={`key ${className}`} aria-hidden="true" />
            {name}
          </span>
        ))}
      </figcaption>
      <div className="axis-y" aria-hidden="true">
        <span>{format(most)}</span>
        <span>{format(most / 2)}</span>
        <span>0</span>
      </div>
      <div className="plot">
        <svg
          viewBox={`0 0 ${points.length} ${height}`}
          preserveAspectRatio="none"
          role="img"
          aria-label={`${title}. The table below lists every step.`}
        >
          {[0, height / 2, height].map((y) => (
            <line key={y} x1="0" x2={points.length} y1={y} y2={y} className="grid-line" />
          ))}
          {kind === 'bars' ? (
            <Bars series={series} points={points} most={most} />
          ) : (
            <Lines series={series} points={points} most={most} />
          )}
        </svg>
        <div className="bar-links" aria-hidden="true">
          {points.map(({ at }, index) => (
            <span key={at} onPointerEnter={() => setPointed(index)} onPointerLeave={() => setPointed(undefined)} />
          ))}
        </div>
        <Marks marks={marks} from={points[0]?.at ?? 0} span={points.length * stepMs} />
        {shown && (
          <Tip
            point={shown}
            series={series}
            format={format}
            title={momentOf(shown.at, isLong)}
            place={(pointed ?? 0) / points.length}
          />
        )}
      </div>
      <div className="axis-x" aria-hidden="true">
        {points
          .filter((_, index) => index % Math.ceil(points.length / 4) === 0)
          .map(({ at }) => (
            <span key={at}>{(isLong ? day : clock).format(at)}</span>
          ))}
      </div>
      <details>
        <summary>View as table</summary>
        <table className="fit">
          <thead>
            <tr>
              <th scope="col">Time</th>
              {series.map(({ name }) => (
                <th key={name} scope="col" className="number">
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {points.map(({ at, values }) => (
              <tr key={at}>
                <td>{momentOf(at, isLong)}</td>
                {series.map(({ name }, index) => (
                  <td key={name} className="number">
                    {textOf(values[index], format)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </details>
    </figure>
  )
}

const textOf = (value: number | undefined, format: (value: number) => string): string =>
  value === undefined ? '–' : format(value)

type Drawn = Pick<Props, 'series' | 'points'> & { most: number }

const Bars = ({ series, points, most }: Drawn) =>
  points.map(({ at, values }, index) => {
    let below = 0
    return (
      <g key={at}>
        {series.map(({ name, className }, which) => {
          const bar = ((values[which] ?? 0) / most) * height
          below += bar
          return <rect key={name} x={index + 0.15} y={height - below} width={0.7} height={bar} className={className} />
        })}
      </g>
    )
  })

/** Missing values leave a gap. A value between two gaps is a short line. */
const Lines = ({ series, points, most }: Drawn) =>
  series.map(({ name, className }, which) => {
    let isOpen = false
    const path = points
      .map(({ values }, index) => {
        const value = values[which]
        const before = isOpen
        isOpen = value !== undefined
        if (value === undefined) return ''
        const y = height - (value / most) * height
        return before ? `L${index + 0.5} ${y}` : `M${index + 0.2} ${y}L${index + 0.5} ${y}`
      })
      .join('')
    return <path key={name} d={path} className={`line ${className}`} />
  })

type TipProps = Pick<Props, 'series' | 'format'> & { point: Point; title: string; place: number }

function Tip({ point, series, format, title, place }: TipProps) {
  const side = place < 0.5 ? { left: `calc(${place * 100}% + 44px)` } : { right: `calc(${100 - place * 100}% + 8px)` }
  return (
    <div className="tip" style={side}>
      <p className="strong">{title}</p>
      <dl>
        {series.map(({ name, className }, index) => (
          <div key={name} className="tip-line">
            <dt>
              <span className={`key ${className}`} />
              {name}
            </dt>
            <dd>{textOf(point.values[index], format)}</dd>
          </div>
        ))}
      </dl>
    </div>
  )
}
