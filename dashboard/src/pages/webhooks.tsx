import { useQuery } from '@tanstack/react-query'
import { useMemo, useState } from 'react'
import { useParams } from 'react-router'
import { $api } from '../api/client.ts'
import { queries } from '../api/queries.ts'
import { Button } from '../ui/button.tsx'
import { DataTable } from '../ui/data_table.tsx'
import { Loaded } from '../ui/loading.tsx'
import { PageHeader } from '../ui/page_header.tsx'
import { Empty, NotForMembers } from '../ui/states.tsx'
import { isFaulty } from '../ui/status.tsx'
import type { Column } from '../ui/table_model.ts'
import { Ago } from '../ui/time.tsx'
import { useOpenOnArrival } from '../ui/use_open_on_arrival.ts'
import { WebhookDetail } from './webhooks/detail.tsx'
import { CreateWebhook } from './webhooks/forms.tsx'
import { nameColumn, Operations, statusColumn, type Webhook } from './webhooks/webhook.tsx'

export function Webhooks() {
  const { id } = useParams()
  const role = $api.useQuery('get', '/caller').data?.role
  if (role && role !== 'admin') return <NotForMembers title="Webhooks" />
  return id ? <WebhookDetail key={id} id={id} /> : <WebhookList />
}

function WebhookList() {
  const webhooks = useQuery(queries.webhooks())
  const [isCreating, setCreating] = useState(false)
  useOpenOnArrival(() => setCreating(true))
  return (
    <>
      <PageHeader title="Webhooks" summary={webhooks.data && !webhooks.isError && summaryOf(webhooks.data)}>
        <Button kind="primary" icon="plus" onPress={() => setCreating(true)}>
          Create webhook
        </Button>
      </PageHeader>
      <Loaded query={webhooks} lines={4}>
        {(rows) => <WebhookTable webhooks={rows} onCreate={() => setCreating(true)} />}
      </Loaded>
      {isCreating && <CreateWebhook onClose={() => setCreating(false)} />}
    </>
  )
}

function WebhookTable({ webhooks, onCreate }: { webhooks: readonly Webhook[]; onCreate: () => void }) {
  const columns = useMemo(webhookColumns, [])
  if (webhooks.length === 0)
    return (
      <div className="frame">
        <Empty
          title="No webhooks yet"
          actions={
            <Button icon="plus" onPress={onCreate}>
              Create your first webhook
            </Button>
          }
        >
          Send every change to your own systems, signed and in order.
        </Empty>
      </div>
    )
  return <DataTable label="Webhooks" rows={webhooks} keyOf={({ id }) => id} columns={columns} isTwoLine />
}

const webhookColumns = (): Column<Webhook>[] => [
  nameColumn('Webhook'),
  { title: 'Operations', className: 'hide-small', cell: (webhook) => <Operations webhook={webhook} /> },
  statusColumn('b1'),
  {
    title: 'Last delivered',
    className: 'b2',
    sortBy: ({ last_delivered_at }) => (last_delivered_at ? Date.parse(last_delivered_at) : 0),
    cell: ({ last_delivered_at: at }) => (at ? <Ago at={at} /> : <span className="soft">Nothing delivered</span>),
  },
]

function summaryOf(webhooks: readonly Webhook[]): string {
  if (webhooks.length === 0) return 'Webhooks send audit events to your own systems.'
  const failing = webhooks.filter(({ status, enabled }) => enabled && isFaulty(status)).length
  const disabled = webhooks.filter(({ enabled }) => !enabled).length
  const total = `${webhooks.length} ${webhooks.length === 1 ? 'webhook' : 'webhooks'}.`
  const parts = [
    failing && `${failing} ${failing === 1 ? 'is' : 'are'} failing`,
    disabled && `${disabled} ${disabled === 1 ? 'is' : 'are'} disabled`,
  ].filter(Boolean)
  if (parts.length > 0) return `${total} ${parts.join(', ')}.`
  return webhooks.every(({ status }) => status?.state === 'up') ? `${total} All deliver.` : total
}
