import { useState } from 'react'

type Hour = { at: string; refused: number; warned: number }

const count = new Intl.NumberFormat('en')
const short = new Intl.NumberFormat('en', { notation: 'compact' })
const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' })
const height = 96
const step = 40
const width = 26

/** The next round number, so that the axis has two lines that people can read: 10, 20, 50, 100… */
export function roundUp(most: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, most)))
  return ([1, 2, 5, 10].find((factor) => factor * power >= most) ?? 10) * power
}

/** Stacked bars by the hour. Refusals are filled and warnings hatched, so that they differ without color too. */
export function Chart({ hours }: { hours: readonly Hour[] }) {
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
          aria-label={`Hourly chart: ${total} in the last 24 hours. The table below lists every hour.`}
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
              <g key={hour.at} onPointerEnter={() => setPointed(index)} onPointerLeave={() => setPointed(undefined)}>
                <rect x={index * step} y="0" width={step} height={height} className="touch" />
                <rect x={x} y={height - red} width={width} height={red} className="bar-refused" />
                <rect x={x} y={height - red - amber} width={width} height={amber} className="bar-warned" />
              </g>
            )
          })}
        </svg>
        <Tip hour={pointed === undefined ? undefined : hours[pointed]} place={(pointed ?? 0) / hours.length} />
      </div>
      <div className="axis-x" aria-hidden="true">
        {hours
          .filter((_, index) => index % 6 === 0)
          .map(({ at }) => (
            <span key={at}>{clock.format(new Date(at))}</span>
          ))}
      </div>
      <details>
        <summary>View as table</summary>
        <HourTable hours={hours} />
      </details>
    </figure>
  )
}

function Tip({ hour, place }: { hour: Hour | undefined; place: number }) {
  if (!hour) return null
  const side = place < 0.5 ? { left: `calc(${place * 100}% + 44px)` } : { right: `calc(${100 - place * 100}% + 8px)` }
  const until = new Date(Date.parse(hour.at) + 3_600_000)
  return (
    <div className="tip" style={side}>
      <p className="strong">
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

function HourTable({ hours }: { hours: readonly Hour[] }) {
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
        {hours.map(({ at, refused, warned }) => (
          <tr key={at}>
            <td>{clock.format(new Date(at))}</td>
            <td className="number">{count.format(refused)}</td>
            <td className="number">{count.format(warned)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}
