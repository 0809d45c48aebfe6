import { ago } from '../../../../src/kernel/ago.ts'
import type { Shapes } from '../../api/client.ts'
import { State } from '../../ui/state.tsx'

export type Webhook = Shapes['WebhookDestination']

export const nameOf = ({ description, url }: Pick<Webhook, 'description' | 'url'>): string => description ?? url

export function StatusOf({ webhook: { status, failing_since, disabled_reason } }: { webhook: Webhook }) {
  if (status === 'healthy') return <State health="up">Delivering</State>
  if (status === 'failing')
    return <State health="down">Failing{failing_since ? ` since ${ago(failing_since)}` : ''}</State>
  return <State health="unknown">{disabled_reason ? `Disabled: ${disabled_reason}` : 'Disabled'}</State>
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
