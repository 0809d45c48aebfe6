import type { PlainRequest } from '../http/plain.ts'
import type { Clock } from '../kernel/clock.ts'
import { createRateLimiter } from '../kernel/flow/rate_limiter.ts'
import { toId, type Uuid } from '../kernel/ids.ts'
import { recordChange } from '../operations/audit.ts'
import type { SignInParts } from './parts.ts'
import type { Provider, SignInFailure } from './provider.ts'

// Anyone can fail to sign in repeatedly, which must not fill the account's audit log.
const eventsPerProvider = { requests: 60, seconds: 60 }
const maxProviders = 1_000

export type NoteFailure = (provider: Provider, request: PlainRequest, failure: SignInFailure) => Promise<void>

/** Records a failed sign-in in the log, the metrics and the audit log of the provider's account. */
export function createFailureNotes({ service, findAccount, warn }: SignInParts, clock: Clock): NoteFailure {
  const limiter = createRateLimiter(clock, maxProviders)
  return async (provider, { operationId, sourceIp }, { reason, note }) => {
    service.metrics.countSignIn(provider.name, reason)
    warn({ operation_id: operationId, provider: provider.name, reason, note, source_ip: sourceIp }, 'a sign-in failed')
    if (!limiter.take(provider.name, eventsPerProvider).allowed) return
    const account = await findAccount(service.db, provider.account)
    if (!account) return
    const accountId: Uuid = account.id
    await recordChange(
      service.db,
      { accountId, operation: 'sign_in.failed', operationId, ...(sourceIp && { sourceIp }) },
      {
        resourceId: toId('ac', accountId),
        before: null,
        after: { method: 'oidc', provider: provider.name, reason, ...(note && { note }) },
      },
    )
  }
}
