import { useState } from 'react'
import { useNavigate } from 'react-router'
import { $api, answerOf, api } from '../../api/client.ts'
import { useRefresh } from '../../api/queries.ts'
import { Button } from '../../ui/button.tsx'
import { CopyId } from '../../ui/copy_id.tsx'
import { Loaded } from '../../ui/loading.tsx'
import { PageMenu } from '../../ui/more_menu.tsx'
import { PageHeader } from '../../ui/page_header.tsx'
import { ProblemNote } from '../../ui/problem.tsx'
import { StatusNote } from '../../ui/status_note.tsx'
import { Tabs } from '../../ui/tabs.tsx'
import { Unread } from '../../ui/unread.ts'
import { ChangeList } from '../audit/list.tsx'
import { Deliveries } from './deliveries.tsx'
import { DeleteWebhook, RotateSecret } from './forms.tsx'
import { nameOf, StatusOf } from './webhook.tsx'

export function WebhookDetail({ id }: { id: string }) {
  const path = { params: { path: { id } } }
  const webhook = $api.useQuery('get', '/webhook_destinations/{id}', path, { refetchInterval: 5_000 })
  const [open, setOpen] = useState<'rotate' | 'delete'>()
  const [problem, setProblem] = useState<unknown>()
  const navigate = useNavigate()
  const refresh = useRefresh()
  const close = () => setOpen(undefined)
  const act = (work: () => Promise<unknown>) =>
    work()
      .then(() => refresh('/webhook_destinations'))
      .catch(setProblem)
  const enable = (enabled: boolean) =>
    act(() => answerOf(api.PATCH('/webhook_destinations/{id}', { ...path, body: { enabled } })))
  const { data } = webhook
  return (
    <Unread value={webhook.isError}>
      <PageHeader
        title={data ? nameOf(data) : id}
        parent={{ to: '/webhooks', name: 'Webhooks' }}
        status={data && <StatusOf webhook={data} />}
        meta={
          <>
            {data?.description && <span className="mono">{data.url}</span>}
            <CopyId id={id} />
            {data !== undefined && data.skipped_events > 0 && (
              <span>{data.skipped_events} events were too old to be sent</span>
            )}
          </>
        }
      >
        <Button onPress={() => act(() => answerOf(api.POST('/webhook_destinations/{id}/test', { ...path, body: {} })))}>
          Send test event
        </Button>
        <PageMenu
          groups={() => [
            {
              entries: [
                { label: 'Rotate secret…', icon: 'rotate', onAction: () => setOpen('rotate') },
                data?.enabled
                  ? { label: 'Disable', icon: 'close', onAction: () => void enable(false) }
                  : { label: 'Enable', icon: 'allowed', onAction: () => void enable(true) },
                { label: 'Delete webhook…', icon: 'trash', isDanger: true, onAction: () => setOpen('delete') },
              ],
            },
          ]}
        />
      </PageHeader>
      {problem !== undefined && <ProblemNote error={problem} />}
      <Loaded query={webhook} lines={6}>
        {(shown) => (
          <>
            <StatusNote status={shown.status} />
            <Tabs
              label={nameOf(shown)}
              tabs={[
                { id: 'deliveries', title: 'Deliveries', children: <Deliveries id={id} /> },
                { id: 'dead', title: 'Dead letters', children: <Deliveries id={id} status="dead" /> },
                { id: 'history', title: 'History', children: <ChangeList resourceId={id} /> },
              ]}
            />
          </>
        )}
      </Loaded>
      {open === 'rotate' && data && <RotateSecret webhook={data} onClose={close} />}
      {open === 'delete' && data && (
        <DeleteWebhook webhook={data} onClose={close} onDeleted={() => void navigate('/webhooks')} />
      )}
    </Unread>
  )
}
