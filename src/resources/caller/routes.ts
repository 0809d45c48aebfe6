import { Type } from 'typebox'
import { accountRequestsPerMinute } from '../../http/limits/rate_limits.ts'
import { type Handling, route } from '../../http/route.ts'
import { Closed, Id, Ref, TimestampOrNull } from '../../http/wire.ts'
import { type Role, roles } from '../../identity/caller.ts'
import { toId } from '../../kernel/ids.ts'
import { canonicalCidr } from '../../kernel/ip/canonical_cidr.ts'
import { type QuotaKind, quotaKinds } from '../../kernel/quotas.ts'
import { findAccountOf } from './store.ts'

export const CallerFields = {
  account_id: Id('ac'),
  owner_id: Id('usr', 'bot'),
  role: Type.Unsafe<Role>({ type: 'string', enum: [...roles] }),
  api_key: Ref,
  source_ip: Type.Unsafe<string | null>({
    type: ['string', 'null'],
    description: 'The address that IP restrictions evaluate. Null when a trusted proxy forwarded an invalid value.',
  }),
}

type Calling = Pick<Handling<object, object, unknown>, 'caller' | 'origin' | 'uri'>
export const toCallerFields = ({ caller, origin, uri }: Calling) => ({
  account_id: toId('ac', caller.accountId),
  owner_id: caller.ownerId,
  role: caller.role,
  api_key: { id: caller.apiKeyId, uri: uri(`/api_keys/${caller.apiKeyId}`) },
  source_ip: origin.sourceIp ?? null,
})

const QuotaUse = Closed(
  {
    used: Type.Integer({ description: 'How many the account has.' }),
    limit: Type.Integer({ description: 'How many it may have.' }),
  },
  { title: 'QuotaUse' },
)
const kinds = Object.keys(quotaKinds) as QuotaKind[]
const ofEachKind = <Value>(value: (kind: QuotaKind) => Value) =>
  Object.fromEntries(kinds.map((kind) => [kind, value(kind)])) as Record<QuotaKind, Value>

const Caller = Closed(
  {
    ...CallerFields,
    account_name: Type.String({ description: 'The name of the account.' }),
    scopes: Type.Array(Type.String(), { description: 'Operations that the API key may call, within the role.' }),
    allowed_cidrs: Type.Array(Type.String(), {
      description: 'Source ranges from which the API key may be used. Empty: from any address.',
    }),
    expires_at: TimestampOrNull('When the API key expires. Null: never.'),
    requests_per_minute: Type.Integer({ description: 'How many requests the API key may make. 0: any number.' }),
    account_requests_per_minute: Type.Integer({
      description: 'How many requests all API keys of the account together may make. 0: any number.',
    }),
    unusual_above: Closed(
      { entries: Type.Integer(), percent: Type.Integer() },
      {
        title: 'UnusualAbove',
        description: 'A change that removes or adds more entries than both of these needs `confirm=true`.',
      },
    ),
    quotas: Closed(
      ofEachKind(() => QuotaUse),
      { title: 'Quotas', description: 'What the account stores, by kind.' },
    ),
  },
  { title: 'Caller' },
)

export const callerRoutes = [
  route({
    operation: 'caller.get',
    summary: 'Get the identity behind the API key, and the source address the service sees',
    method: 'GET',
    path: '/caller',
    success: 200,
    response: Caller,
    access: 'anyone',
    async handle(request) {
      const { name, used, own_quotas, tcp_ports } = await findAccountOf(request.db, request.caller)
      const quotas = ofEachKind((kind) => ({
        used: kind === 'tcp_ports' ? tcp_ports : (used?.[kind] ?? 0),
        limit: own_quotas?.[kind] ?? request.settings.quotas[kind],
      }))
      const unusual_above = request.settings.unusualAbove
      const { scopes, allowedCidrs, apiKeyExpiresAt: expires_at } = request.caller
      const requests_per_minute = request.caller.requestsPerMinute ?? request.settings.requestsPerMinute
      const key = {
        scopes: [...scopes],
        allowed_cidrs: allowedCidrs.map(canonicalCidr),
        expires_at,
        requests_per_minute,
        account_requests_per_minute: accountRequestsPerMinute(requests_per_minute),
      }
      return { body: { ...toCallerFields(request), account_name: name, ...key, unusual_above, quotas } }
    },
  }),
]
