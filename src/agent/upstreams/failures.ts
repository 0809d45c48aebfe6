import type { Health } from '../reports/health.ts'
import type { TlsUpstream } from './certificate_fault.ts'
import { createFairQueue } from './fair_queue.ts'

/** A request or connection that failed at its upstream, or could not reach it. */
export type UpstreamFailure = {
  readonly account: string
  readonly backend: string
  readonly address: string
  readonly port: number
  readonly reason: string
  /**
   * Set if the upstream's certificate was refused and the reason is still unknown: the name that it must be valid for.
   */
  readonly refusedCertificateOf?: string
}

const askAgainMs = 60_000
const maxAnswers = 1_000
/** One job per account, so that slow upstreams of one do not delay the others. */
const limits = { total: 4, perLane: 1 }

type Answer = { askedAt: number; upstream: TlsUpstream; fault: string | undefined }

/** Turns failures of real requests into observations of the upstream's health. */
export function createFailures(
  health: Pick<Health, 'observe'>,
  explain: (upstream: TlsUpstream) => Promise<string | undefined>,
) {
  /** By upstream, so that a known reason survives while requests continue to fail. */
  const answers = new Map<string, Answer>()
  const queue = createFairQueue(limits, async (key) => {
    const answer = answers.get(key)
    if (answer) answer.fault = await explain(answer.upstream)
  })

  async function explained({ account, address, port }: UpstreamFailure, name: string): Promise<string | undefined> {
    const key = `${address} ${port} ${name}`
    const known = answers.get(key)
    if (known && Date.now() - known.askedAt < askAgainMs) return known.fault
    const answer = { askedAt: Date.now(), upstream: { address, port, name }, fault: known?.fault }
    answers.delete(key)
    answers.set(key, answer)
    for (const oldest of answers.keys()) if (answers.size > maxAnswers) answers.delete(oldest)
    await queue.add(key, [account], 'other')
    return answer.fault
  }

  return {
    async note(failure: UpstreamFailure): Promise<void> {
      const { account, backend, address, port, reason, refusedCertificateOf } = failure
      const at = Date.now()
      const seen = { account, backend, address, port, status: 'failing', at } as const
      const known = refusedCertificateOf && answers.get(`${address} ${port} ${refusedCertificateOf}`)?.fault
      health.observe({ ...seen, reason: known ? `TLS: ${known}` : reason })
      if (refusedCertificateOf === undefined) return
      const fault = await explained(failure, refusedCertificateOf)
      if (fault && fault !== known) health.observe({ ...seen, reason: `TLS: ${fault}` })
    },
    stop: () => queue.stop(),
  }
}
