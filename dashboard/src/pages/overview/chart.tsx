type Hour = { at: string; refused: number; warned: number }

const count = new Intl.NumberFormat('en')
const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' })
const height = 120
const step = 30
const width = 22

/** Stacked bars by the hour. Refusals are filled and warnings hatched, so that they differ without color too. */
export function Chart({ hours }: { hours: readonly Hour[] }) {
  const most = Math.max(1, ...hours.map(({ refused, warned }) => refused + warned))
  const refused = hours.reduce((sum, hour) => sum + hour.refused, 0)
  const warned = hours.reduce((sum, hour) => sum + hour.warned, 0)
  const total = `${count.format(refused)} refused, ${count.format(warned)} ${warned === 1 ? 'warning' : 'warnings'}`
  return (
    <figure className="chart">
      <figcaption>
        <span className="key refused">
          <span aria-hidden="true" />
          {count.format(refused)} refused
        </span>
        <span className="key warned">
          <span aria-hidden="true" />
          {count.format(warned)} {warned === 1 ? 'warning' : 'warnings'}
        </span>
        {refused + warned > 0 && <span className="fine">Peak: {count.format(most)} per hour</span>}
      </figcaption>
      <svg
        viewBox={`0 0 ${hours.length * step} ${height}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`Hourly chart: ${total} in the last 24 hours. The table below lists every hour.`}
      >
        <title>{total}</title>
        <defs>
          <pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
            <rect width="6" height="6" className="hatch-ground" />
            <rect width="2.5" height="6" className="hatch-line" />
          </pattern>
        </defs>
        <line x1="0" x2={hours.length * step} y1={height - 0.5} y2={height - 0.5} className="axis" />
        {hours.map((hour, index) => {
          const [red, amber] = [(hour.refused / most) * (height - 8), (hour.warned / most) * (height - 8)]
          const x = index * step + (step - width) / 2
          return (
            <g key={hour.at}>
              <title>{`${clock.format(new Date(hour.at))}: ${hour.refused} refused, ${hour.warned} warned`}</title>
              <rect x={index * step} y="0" width={step} height={height} className="touch" />
              <rect x={x} y={height - red} width={width} height={red} className="bar-refused" />
              <rect x={x} y={height - red - amber} width={width} height={amber} className="bar-warned" />
            </g>
          )
        })}
      </svg>
      <div className="hours" aria-hidden="true">
        {hours
          .filter((_, index) => index % 6 === 0)
          .map(({ at }) => (
            <span key={at}>{clock.format(new Date(at))}</span>
          ))}
      </div>
      <details>
        <summary>Show as table</summary>
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
      </details>
    </figure>
  )
}
