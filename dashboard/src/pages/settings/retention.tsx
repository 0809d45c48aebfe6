import { Line } from './line.tsx'

export function Retention() {
  return (
    <>
      <Line title="Traffic statistics" end="90 days">
        By minute for a day, by hour for 90 days. Without addresses.
      </Line>
      <Line title="Alerts that are over" end="90 days">
        The newest 1,000.
      </Line>
      <Line title="Requests, addresses, audit log and deliveries" end={<a href={limitsPage}>Limits and retention</a>}>
        As long as the operator has set. Ask the operator of this installation.
      </Line>
    </>
  )
}
const limitsPage = '/docs/reference/limits-and-retention.html'
