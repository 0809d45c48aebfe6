import type { OutcomeRow } from '../../access/evidence/address_outcomes.ts'
import { rfc3339 } from '../../kernel/clock.ts'
import { type Id, isId, toId, toUuid, type Uuid } from '../../kernel/ids.ts'
import { canonicalAddress } from '../../kernel/ip/address.ts'
import { refsOf } from '../edges/view.ts'
import { refTo } from '../ip_restrictions/decided_by.ts'
import type { Cause } from './history.ts'
import type { RefusedNow } from './refused_now.ts'
import type { NewlyRefusedAddress, RefusalCause, Refusing } from './schema.ts'

type UriOf = (path: string) => string

export const toNewlyRefused = (
  { row, target, restrictionId, verdict }: RefusedNow & { row: OutcomeRow },
  cause: Cause = { kind: 'unknown', reason: 'It was not looked for.' },
  uri: UriOf,
): NewlyRefusedAddress => ({
  ip: canonicalAddress(row.ip),
  type: row.type,
  ...(target ? refsOf(target, uri) : { target: null, edge: null }),
  last_allowed_at: row.allowed_at,
  last_refused_at: row.refused_at,
  decided_by: toRefusing(restrictionId, verdict, uri),
  cause: toCause(cause, uri),
})

const toRefusing = (restrictionId: Uuid | undefined, verdict: RefusedNow['verdict'], uri: UriOf): Refusing => ({
  by: restrictionId ? 'restriction' : 'module',
  ip_restriction: restrictionId ? refTo('ipx', restrictionId, uri) : null,
  ip_policy: verdict.policyId ? refTo('ipp', verdict.policyId, uri) : null,
  ip_policy_rule: verdict.ruleId ? refTo('ipr', verdict.ruleId, uri) : null,
  ip_policies: verdict.explain().map(({ policyId }) => refTo('ipp', policyId, uri)),
})

const nothingKnown = { at: null, audit_event: null, ip_policy: null, ip_policy_rule: null }

function toCause(cause: Cause, uri: UriOf): RefusalCause {
  const refOrNull = <P extends 'ipp' | 'ipr'>(prefix: P, id: string | null) =>
    id !== null && isId(prefix, id) ? refTo(prefix, toUuid(id), uri) : null
  switch (cause.kind) {
    case 'unknown':
      return { ...nothingKnown, kind: cause.kind, reason: cause.reason }
    case 'expiry':
      return {
        ...nothingKnown,
        kind: cause.kind,
        at: rfc3339(cause.at),
        ip_policy: refOrNull('ipp', cause.policyId),
        ip_policy_rule: refOrNull('ipr', cause.ruleId),
        reason: `The rule of ${cause.policyId} that allowed ${cause.cidr} expired.`,
      }
    case 'change': {
      const { id, at, operation, operation_id, resource_id, owner_id, api_key_id } = cause.event
      const by = owner_id ?? 'a command on the server'
      return {
        ...nothingKnown,
        kind: cause.kind,
        at: rfc3339(at),
        audit_event: {
          id: toId('ev', id as Uuid),
          operation,
          operation_id: operation_id as Id<'op'>,
          resource_id,
          owner_id,
          api_key_id,
        },
        reason: `${operation} of ${resource_id} by ${by} refused it.`,
      }
    }
  }
}
