import type { NatsConnection } from '@nats-io/transport-node'
import { type Report, reportSubject } from '../distribution/channels.ts'
import type { createHits } from './hits.ts'

const everyMs = 2_000
const soonMs = 10

/**
 * Tells the control plane what is in force here: at once after a change, and every two seconds as a sign of life. Counts are
 * sent with a question, and forgotten only when the active publisher has answered.
 */
export function createReporter(
  nats: NatsConnection,
  hits: ReturnType<typeof createHits>,
  current: () => Omit<Report, 'hits'>,
) {
  let soon: NodeJS.Timeout | undefined
  const send = () => {
    soon = undefined
    const report: Report = { ...current(), hits: [] }
    if (!nats.isClosed()) nats.publish(reportSubject(report.node), JSON.stringify(report))
  }
  const sendWithHits = async () => {
    const taken = hits.take()
    if (taken.hits.length === 0) return send()
    const report: Report = { ...current(), hits: taken.hits }
    try {
      await nats.request(reportSubject(report.node), JSON.stringify(report), { timeout: everyMs - 500 })
    } catch {
      taken.giveBack()
    }
  }
  const timer = setInterval(sendWithHits, everyMs)
  send()
  return {
    soon: () => {
      soon ??= setTimeout(send, soonMs)
    },
    async stop() {
      clearInterval(timer)
      clearTimeout(soon)
      await sendWithHits()
    },
  }
}
