import { quotaKinds } from '../../../../src/kernel/quotas.ts'
import type { Shapes } from '../../api/client.ts'
import { Line } from './line.tsx'

type Caller = Shapes['Caller']
const count = new Intl.NumberFormat('en')
const nearFull = 0.8

const rate = (perMinute: number): string => (perMinute === 0 ? 'any number' : `${count.format(perMinute)} a minute`)

/** Usage of each quota, fullest first, and the request limits of the API. */
export function Quotas({ caller }: { caller: Caller }) {
  const rows = Object.entries(caller.quotas)
    .map(([kind, { used, limit }]) => ({
      ...{ kind, used, limit, share: limit === 0 ? 1 : used / limit },
      called: quotaKinds[kind as keyof typeof quotaKinds].called,
    }))
    .sort((a, b) => b.share - a.share)
  return (
    <>
      <ul aria-label="Quotas">
        {rows.map(({ kind, called, used, limit, share }) => (
          <li key={kind} className="quota">
            <span>{called.slice(0, 1).toUpperCase() + called.slice(1)}</span>
            <svg className="quota-bar" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">
              <rect className="hit-ground" width="100" height="4" />
              {used > 0 && (
                <rect
                  className={share >= nearFull ? 'quota-full' : 'hit-fill'}
                  width={Math.max(1.5, Math.min(1, share) * 100)}
                  height="4"
                />
              )}
            </svg>
            <span className="number">
              {count.format(used)} <span className="soft">of {count.format(limit)}</span>
              {share >= nearFull && <span className="for-readers">, nearly full</span>}
            </span>
          </li>
        ))}
      </ul>
      <Line title="Requests to the API" end={rate(caller.requests_per_minute)}>
        By your key. All keys of the account together may make {rate(caller.account_requests_per_minute)}.
      </Line>
    </>
  )
}
