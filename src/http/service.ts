import type { Evaluate } from '../access/decisions.ts'
import type { HitBuffer } from '../access/evidence/hit_buffer.ts'
import type { OutcomeBuffer } from '../access/evidence/outcome_buffer.ts'
import type { RuleHitBuffer } from '../access/evidence/rule_hit_buffer.ts'
import type { UsageBuffer } from '../access/evidence/usage_buffer.ts'
import type { DbPool } from '../db/pool.ts'
import type { Caller } from '../identity/caller.ts'
import type { FailedSignIn } from '../identity/failed_sign_in.ts'
import type { Origin } from '../identity/origin.ts'
import type { Clock } from '../kernel/clock.ts'
import type { Bell } from '../kernel/flow/bell.ts'
import type { Uuid } from '../kernel/ids.ts'
import type { CompiledPolicy } from '../kernel/ip/ranges.ts'
import type { NoteBreakGlass } from './approval/note.ts'
import type { DomainService } from './domains.ts'
import type { Rehearse } from './dry_run.ts'
import type { EdgeView } from './edges.ts'
import type { EventStreams } from './event_stream.ts'
import type { HeavyOperations } from './limits/heavy.ts'
import type { RateLimits } from './limits/rate_limits.ts'
import type { Metrics } from './metrics/metrics.ts'
import type { RequestSpan } from './request_span.ts'
import type { InstallationSettings } from './route.ts'

/** Dependencies of every request. */
export type Service = {
  readonly db: DbPool
  /** The database with the account's share of connections. */
  readonly dbOf: (accountId: Uuid) => DbPool
  readonly rehearse: Rehearse
  readonly noteBreakGlass: NoteBreakGlass
  readonly heavy: HeavyOperations
  readonly streams: EventStreams
  readonly clock: Clock
  readonly publicUrl: string
  /** Lower-case names of headers that may carry the version. */
  readonly versionHeaders: readonly string[]
  readonly trustedProxies: CompiledPolicy
  readonly evaluate: Evaluate
  readonly hitBuffer: HitBuffer
  readonly ruleHitBuffer: RuleHitBuffer
  readonly usageBuffer: UsageBuffer
  readonly outcomeBuffer: OutcomeBuffer
  readonly metrics: Metrics
  /** Undefined unless tracing is configured. */
  readonly trace: ((span: RequestSpan) => void) | undefined
  readonly settings: InstallationSettings
  readonly edges: EdgeView
  /** Rung after each request that may have changed something. */
  readonly changes: Pick<Bell, 'ring'>
  readonly domains: DomainService
  /** Whether the cookie of a dashboard session is accepted instead of a token. */
  readonly dashboard: boolean
  readonly rateLimits: RateLimits
  /** Audits, for the account's admins, that a key was used from outside its ranges. */
  readonly recordRefusedKey: (origin: Origin & { caller: Caller }) => void
  /** Audits, for the account's admins, that a sign-in with a token failed, and why. */
  readonly noteFailedSignIn: (failure: FailedSignIn) => void
}
