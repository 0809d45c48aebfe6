import { Link } from 'react-router'
import { ago } from '../../../../src/kernel/ago.ts'
import type { Shapes } from '../../api/client.ts'
import { rankOf, StatusState, wordOf } from '../../ui/status.tsx'
import type { Column } from '../../ui/table_model.ts'

export type Webhook = Shapes['WebhookDestination']

export const nameOf = ({ description, url }: Pick<Webhook, 'description' | 'url'>): string => description ?? url

export function StatusOf({ webhook }: { webhook: Webhook }) {
  return <StatusState status={webhook.status}>{wordsFor(webhook)}</StatusState>
}

function wordsFor({ status, enabled, failing_since }: Webhook): string {
  if (!enabled) return 'Disabled'
  if (status?.code === 'ok') return 'Delivering'
  if (status?.code === 'nothing_sent_yet') return 'Nothing sent yet'
  if (status?.code !== 'delivery_failing') return wordOf(status)
  return failing_since ? `Failing since ${ago(failing_since)}` : 'Failing'
}

/** Common to all lists of destinations. */
export const nameColumn = (title: string): Column<Webhook> => ({
  title,
  className: 'a1',
  width: '42%',
  isRowHead: true,
  sortBy: nameOf,
  cell: (webhook) => (
    <span className="two">
      <Link className="row-link" to={`/webhooks/${webhook.id}`}>
        {nameOf(webhook)}
      </Link>
      {webhook.description && <small className="mono hide-small">{webhook.url}</small>}
    </span>
  ),
})

export const statusColumn = (className: string): Column<Webhook> => ({
  ...{ title: 'Status', className },
  sortBy: ({ status }) => rankOf(status),
  cell: (webhook) => <StatusOf webhook={webhook} />,
})

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
