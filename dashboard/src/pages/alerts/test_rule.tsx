import { useQueries, useQuery } from '@tanstack/react-query'
import { Link } from 'react-router'
import { answerOf, api, type Shapes } from '../../api/client.ts'
import { Button } from '../../ui/button.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { Loaded } from '../../ui/loading.tsx'
import { ProblemNote } from '../../ui/problem.tsx'
import { type Health, State } from '../../ui/state.tsx'
import { isFaulty } from '../../ui/status.tsx'
import { nameOf, type Webhook } from '../webhooks/webhook.tsx'
import { useDestinations } from './use_destinations.ts'
import { type AlertRule, nameOfRule } from './words.ts'

type Delivery = Shapes['WebhookDelivery']

const testsOf = async (id: string, rule: AlertRule): Promise<Delivery[]> => {
  const { deliveries } = await answerOf(api.GET('/webhook_destinations/{id}/deliveries', { params: { path: { id } } }))
  return deliveries.filter(({ operation, resource_id }) => operation === 'alert_rules.test' && resource_id === rule.id)
}

/** Sends a test and shows the result at each destination. */
export function TestRule({ rule, onClose }: { rule: AlertRule; onClose: () => void }) {
  const { data: destinations, error } = useDestinations(true)
  return (
    <Dialog title={`Test of “${nameOfRule(rule)}”`} onClose={onClose}>
      {destinations ? <Sent {...{ rule, destinations }} /> : error != null && <ProblemNote error={error} />}
      <div className="actions">
        <Button kind="primary" onPress={onClose}>
          Done
        </Button>
      </div>
    </Dialog>
  )
}

function Sent({ rule, destinations }: { rule: AlertRule; destinations: readonly Webhook[] }) {
  // A query, so that rendering again does not send it again.
  const sent = useQuery({
    queryKey: ['test of an alert rule', rule.id],
    queryFn: async () => {
      const before = await Promise.all(destinations.map(({ id }) => testsOf(id, rule)))
      await answerOf(api.POST('/alert_rules/{id}/test', { params: { path: { id: rule.id } }, body: {} }))
      return before.flat().map(({ id }) => id)
    },
    enabled: destinations.length > 0,
    ...{ staleTime: Number.POSITIVE_INFINITY, gcTime: 0, retry: false },
  })
  if (destinations.length === 0)
    return (
      <p>
        Nothing was sent, because no enabled <Link to="/webhooks">webhook</Link> gets alerts. Add a destination first.
      </p>
    )
  return (
    <Loaded query={sent} lines={2}>
      {(before) => <Outcomes {...{ rule, destinations, before }} />}
    </Loaded>
  )
}

type OutcomesProps = { rule: AlertRule; destinations: readonly Webhook[]; before: readonly string[] }

function Outcomes({ rule, destinations, before }: OutcomesProps) {
  const found = useQueries({
    queries: destinations.map(({ id }) => ({
      queryKey: ['tests at a destination', id, rule.id, before],
      queryFn: async () => (await testsOf(id, rule)).find((each) => !before.includes(each.id)) ?? null,
      refetchInterval: 1_000,
    })),
  })
  return (
    <ul className="plain-list outcomes" aria-label="Destinations">
      {destinations.map((destination, index) => (
        <li key={destination.id}>
          <Link to={`/webhooks/${destination.id}`}>{nameOf(destination)}</Link>
          <Outcome delivery={found[index]?.data} isFailing={isFaulty(destination.status)} />
        </li>
      ))}
    </ul>
  )
}

const states: Record<Delivery['status'], { health: Health; word: string }> = {
  delivered: { health: 'up', word: 'Delivered' },
  pending: { health: 'partial', word: 'Failed, and tried again' },
  dead: { health: 'down', word: 'Failed' },
}

function Outcome({ delivery, isFailing }: { delivery: Delivery | null | undefined; isFailing: boolean }) {
  if (!delivery || (delivery.status === 'pending' && !delivery.last_error))
    // A failing destination gets one message at a time, in order.
    return <State health="unknown">{isFailing ? 'Waiting, because earlier messages fail' : 'Waiting…'}</State>
  const { health, word } = states[delivery.status]
  return (
    <State health={health}>
      {word}
      {delivery.last_error && delivery.status !== 'delivered' && `: ${delivery.last_error}`}
    </State>
  )
}
