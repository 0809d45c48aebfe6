import { type Health, State } from '../../ui/state.tsx'
import { Ago } from '../../ui/time.tsx'
import type { Domain } from './domain.tsx'

type Order = { health: Health; title: string; isFailed: boolean }

/** Missing preconditions of an order; nothing has failed. */
const isMissing: Readonly<Record<string, true>> = { unverified: true, no_hostports: true }

/** State of the managed certificate; undefined if it is not managed. */
export function orderOf({ certificate_management_status: status }: Domain): Order | undefined {
  if (!status) return undefined
  const { renews_at, provisioning_job: job } = status
  if (!job) return { health: 'up', title: 'Issued', isFailed: false }
  if (!job.error_code)
    return renews_at
      ? { health: 'up', title: 'Renewing now', isFailed: false }
      : { health: 'unknown', title: 'Ordering now', isFailed: false }
  if (isMissing[job.error_code]) return { health: 'unknown', title: 'Not ordered yet', isFailed: false }
  if (job.error_code === 'order_limit') return { health: 'partial', title: 'Waits for its turn', isFailed: true }
  return renews_at
    ? { health: 'partial', title: 'Renewal failed', isFailed: true }
    : { health: 'down', title: 'Order failed', isFailed: true }
}

export function OrderState({ domain, showRenewal }: { domain: Domain; showRenewal?: boolean }) {
  const order = orderOf(domain)
  const renewsAt = domain.certificate_management_status?.renews_at
  return (
    order && (
      <State health={order.health}>
        {order.title}
        {showRenewal && renewsAt && !order.isFailed && (
          <>
            , renews <Ago at={renewsAt} />
          </>
        )}
      </State>
    )
  )
}

const records =
  'Check the A, AAAA and CAA records of the name. They must lead to the edge nodes, whose port 80 must be reachable.'
const byItself = 'The next attempt begins by itself.'
const advice: Readonly<Record<string, string>> = {
  unverified: 'Publish the TXT record and verify the domain. The order then begins by itself.',
  no_hostports: 'Add a hostport under the domain to an HTTPS edge. The order then begins by itself.',
  wildcard: 'Ask the operator to set up the DNS hook, or serve names without a wildcard.',
  too_many_names: 'Use a wildcard hostport, or reserve a domain below this one.',
  dns: records,
  connection: records,
  unauthorized: records,
  caa: records,
  rateLimited: 'The limits of the authority are used up. Wait for the next attempt.',
  order_limit: 'Wait for the next attempt, or ask the operator to raise the limit.',
  nodes: 'Ask the operator to look at the edge nodes: some are disconnected or behind.',
  hook: 'Ask the operator to look at the log: the DNS hook failed.',
  unreachable: `${byItself} Ask the operator if it stays like this.`,
  slow: `${byItself} It continues the same order.`,
  internal: 'Ask the operator to look at the log.',
}

export const adviceFor = (code: string): string => advice[code] ?? byItself
