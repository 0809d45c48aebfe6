import { ago } from '../../../../src/kernel/ago.ts'
import type { Shapes } from '../../api/client.ts'
import { StatusState, stateOf } from '../../ui/status.tsx'

export type Webhook = Shapes['WebhookDestination']

export const nameOf = ({ description, url }: Pick<Webhook, 'description' | 'url'>): string => description ?? url

export function StatusOf({ webhook: { status, enabled, failing_since } }: { webhook: Webhook }) {
  return <StatusState status={status}>{wordsFor(stateOf(status), enabled, failing_since)}</StatusState>
}

function wordsFor(state: ReturnType<typeof stateOf>, enabled: boolean, failingSince: string | null): string {
  if (!enabled) return 'Disabled'
  if (state === 'up') return 'Delivering'
  if (state === 'unknown') return 'Nothing sent yet'
  return failingSince ? `Failing since ${ago(failingSince)}` : 'Failing'
}

export function Operations({ webhook: { operations } }: { webhook: Webhook }) {
  if (operations.includes('*')) return <span className="tag">All operations</span>
  return (
    <span className="tags">
      {operations.slice(0, 2).map((pattern) => (
        <span key={pattern} className="tag mono">
          {pattern}
        </span>
      ))}
      {operations.length > 2 && <span className="tag">+{operations.length - 2}</span>}
    </span>
  )
}
