import { useMemo, useState } from 'react'
import { ago } from '../../../../src/kernel/ago.ts'
import { $api, answerOf, api, type Shapes } from '../../api/client.ts'
import { useRefresh } from '../../api/queries.ts'
import { Button } from '../../ui/button.tsx'
import { DataTable } from '../../ui/data_table.tsx'
import { Loaded } from '../../ui/loading.tsx'
import { ProblemNote } from '../../ui/problem.tsx'
import { type Health, State } from '../../ui/state.tsx'
import { Empty } from '../../ui/states.tsx'
import type { Column } from '../../ui/table_model.ts'
import { Ago } from '../../ui/time.tsx'

type Delivery = Shapes['WebhookDelivery']

const states: Record<Delivery['status'], { health: Health; word: string }> = {
  delivered: { health: 'up', word: 'Delivered' },
  pending: { health: 'partial', word: 'Pending' },
  dead: { health: 'down', word: 'Dead' },
}

/** The latest hundred. Dead ones can be resent, individually or all. */
export function Deliveries({ id, status }: { id: string; status?: 'dead' }) {
  const path = { path: { id } }
  const deliveries = $api.useQuery(
    'get',
    '/webhook_destinations/{id}/deliveries',
    { params: { ...path, query: status ? { status } : {} } },
    { refetchInterval: 5_000 },
  )
  const [problem, setProblem] = useState<unknown>()
  const refresh = useRefresh()
  const columns = useMemo(() => {
    const replay = (body: { event_ids: string[] }) =>
      answerOf(api.POST('/webhook_destinations/{id}/replay', { params: { path: { id } }, body }))
        .then(() => refresh('/webhook_destinations'))
        .catch(setProblem)
    return columnsFor((delivery) => void replay({ event_ids: [delivery.id] }))
  }, [id, refresh])
  const replayAll = () =>
    answerOf(api.POST('/webhook_destinations/{id}/replay', { params: path, body: { since: '1970-01-01T00:00:00Z' } }))
      .then(() => refresh('/webhook_destinations'))
      .catch(setProblem)
  return (
    <>
      {problem !== undefined && <ProblemNote error={problem} />}
      <Loaded query={deliveries} lines={6}>
        {({ deliveries: rows }) =>
          rows.length === 0 ? (
            <div className="frame">
              <Empty title={status ? 'No dead events' : 'Nothing was sent yet'}>
                {status ? 'Events that no attempt could deliver are listed here.' : 'Send a test event to try it.'}
              </Empty>
            </div>
          ) : (
            <>
              {status && (
                <div className="bar">
                  <Button onPress={replayAll}>Replay all dead events</Button>
                </div>
              )}
              <DataTable
                label={status ? 'Dead letters' : 'Deliveries'}
                rows={rows}
                keyOf={(row) => row.id}
                columns={columns}
                isTwoLine
              />
            </>
          )
        }
      </Loaded>
    </>
  )
}

const columnsFor = (onReplay: (delivery: Delivery) => void): Column<Delivery>[] => [
  {
    title: 'Event',
    className: 'a1',
    width: '34%',
    isRowHead: true,
    cell: ({ operation, id }) => (
      <span className="two">
        <span className="mono">{operation}</span>
        <small className="mono hide-small">{id}</small>
      </span>
    ),
  },
  { title: 'Resource', className: 'low', cell: ({ resource_id }) => <span className="mono fine">{resource_id}</span> },
  {
    title: 'Status',
    className: 'b1',
    cell: ({ status, last_error, next_attempt_at, attempts }) => (
      <span className="two">
        <State health={states[status].health}>{states[status].word}</State>
        {last_error && (
          <small className="hide-small">
            {last_error}
            {next_attempt_at && attempts > 0 && `; again ${ago(next_attempt_at)}`}
          </small>
        )}
      </span>
    ),
  },
  { title: 'Attempts', className: 'number hide-small', cell: ({ attempts }) => attempts },
  {
    title: 'Last attempt',
    className: 'b2',
    cell: ({ last_attempt_at: at }) => (at ? <Ago at={at} /> : <span className="soft">Not yet</span>),
  },
  {
    title: 'Actions',
    titleHidden: true,
    className: 'a2',
    width: '96px',
    cell: (delivery) =>
      delivery.status === 'pending' ? null : (
        <Button
          kind="quiet"
          aria-label={`Replay ${delivery.operation} ${delivery.id}`}
          onPress={() => onReplay(delivery)}
        >
          Replay
        </Button>
      ),
  },
]
