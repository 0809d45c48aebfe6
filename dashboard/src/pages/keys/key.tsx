import type { Shapes } from '../../api/client.ts'
import { Ago } from '../../ui/time.tsx'

export type ApiKey = Shapes['ApiKey']

export const nameOf = (key: ApiKey): string => key.description ?? key.id

const day = 86_400_000

export function expiryOf({ expires_at }: ApiKey): 'never' | 'later' | 'soon' | 'over' {
  if (!expires_at) return 'never'
  const left = Date.parse(expires_at) - Date.now()
  return left <= 0 ? 'over' : left < 7 * day ? 'soon' : 'later'
}

/** Not used for 30 days, and old enough for that to be significant. */
export const isUnused = ({ created_at, last_used_at }: ApiKey): boolean =>
  Date.parse(last_used_at ?? created_at) < Date.now() - 30 * day

/** Use is recorded by the hour, so 'a minute ago' would be too precise. */
export function UsedAt({ hour }: { hour: string }) {
  return Date.now() - Date.parse(hour) < 3_600_000 ? <>within the last hour</> : <Ago at={hour} />
}
