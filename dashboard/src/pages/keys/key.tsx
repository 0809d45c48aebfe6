import type { Shapes } from '../../api/client.ts'
import { Ago } from '../../ui/time.tsx'

export type ApiKey = Shapes['ApiKey']

export const nameOf = (key: ApiKey): string => key.description ?? key.id

/** Use is recorded by the hour, so 'a minute ago' would claim more than is known. */
export function UsedAt({ hour }: { hour: string }) {
  return Date.now() - Date.parse(hour) < 3_600_000 ? <>within the last hour</> : <Ago at={hour} />
}
