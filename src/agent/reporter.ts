import type { NatsConnection } from '@nats-io/transport-node'
import { keptRuleHits, type Report, reportSubject } from '../distribution/channels.ts'
import type { Allowed } from './allowed.ts'
import type { Health } from './health.ts'
import type { createHits } from './hits.ts'
import type { RuleHits } from './rule_hits.ts'

export type Reported = {
  hits: ReturnType<typeof createHits>
  allowed: Allowed
  health: Health
  ruleHits: RuleHits
}

const everyMs = 2_000
const soonMs = 10
const answerMs = 5_000

/**
 * Tells the control plane what is in force here: at once after a change, and every two seconds as a sign of life. Counts are
 * sent with a question, and forgotten only when the active publisher has answered. The health of upstreams comes every two
 * seconds at most, however often it changes: whoever makes theirs change all the time must not make reports of it.
 */
export function createReporter(
  nats: NatsConnection,
  { hits, allowed, health, ruleHits }: Reported,
  state: () => Omit<Report, 'hits' | 'allowed' | 'health' | 'upstreams'>,
) {
  const current = () => ({ ...state(), countsRules: true })
  let soon: NodeJS.Timeout | undefined
  const publish = (report: Report) => {
    if (!nats.isClosed()) nats.publish(reportSubject(report.node), JSON.stringify(report))
  }
  const sendNow = () => {
    soon = undefined
    publish({ ...current(), hits: [], upstreams: health.counts() })
  }
  const sendAll = async () => {
    const taken = hits.take()
    const letIn = allowed.take()
    const seen = health.take(Date.now())
    const report: Report = {
      ...current(),
      hits: taken.hits,
      ...(letIn.allowed.length > 0 && { allowed: letIn.allowed }),
      health: seen.health,
      upstreams: health.counts(),
    }
    if (taken.hits.length === 0 && letIn.allowed.length === 0) return publish(report)
    try {
      await nats.request(reportSubject(report.node), JSON.stringify(report), { timeout: everyMs - 500 })
    } catch {
      taken.giveBack()
      letIn.giveBack()
      seen.giveBack()
    }
  }
  let isSendingRuleHits = false
  /** One batch after another, for as long as the control plane has each of them in its database. */
  const sendRuleHits = async () => {
    if (isSendingRuleHits) return
    isSendingRuleHits = true
    try {
      for (let next = ruleHits.next(); next; next = ruleHits.next()) {
        const report: Report = { ...current(), hits: [], ruleHits: next }
        const answer = await nats.request(reportSubject(report.node), JSON.stringify(report), { timeout: answerMs })
        // A control plane of before answers, too, and knows nothing of rules.
        if (answer.string() !== keptRuleHits(next.batch)) return
        ruleHits.confirm(next.batch)
      }
    } catch {
      // Nobody answered: the same goes out again.
    } finally {
      isSendingRuleHits = false
    }
  }
  const timer = setInterval(() => {
    void sendAll()
    void sendRuleHits()
  }, everyMs)
  sendNow()
  return {
    soon: () => {
      soon ??= setTimeout(sendNow, soonMs)
    },
    async stop() {
      clearInterval(timer)
      clearTimeout(soon)
      await Promise.all([sendAll(), sendRuleHits()])
    },
  }
}
