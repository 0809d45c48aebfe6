import { toId } from '../kernel/ids.ts'
import type { Ended } from './request_facts.ts'

/** Trace span of an API call. Contains no address, no URL and no headers except the one that continues a trace. */
export type RequestSpan = {
  readonly operation: string
  readonly operationId: string
  readonly method: string
  /** The route pattern, as in the log. */
  readonly path: string | null
  readonly status: number
  readonly account: string | undefined
  /** In milliseconds. */
  readonly endedAt: number
  readonly duration: number
  /** As the client sent it. */
  readonly traceparent: string | undefined
}

/** Undefined for probes and requests that match no operation. */
function spanOf(ended: Ended, traceparent: string | string[] | undefined): RequestSpan | undefined {
  const { id, facts, method, path, status, elapsedMs } = ended
  const { operation, caller } = facts
  if (operation === undefined) return undefined
  return {
    operation,
    operationId: id,
    method,
    path,
    status,
    account: caller && toId('ac', caller.accountId),
    endedAt: Date.now(),
    duration: elapsedMs,
    traceparent: typeof traceparent === 'string' ? traceparent : undefined,
  }
}

type Tracing = { readonly trace: ((span: RequestSpan) => void) | undefined }

export function noteSpan({ trace }: Tracing, ended: Ended, traceparent: string | string[] | undefined): void {
  const span = trace && spanOf(ended, traceparent)
  if (span) trace(span)
}
