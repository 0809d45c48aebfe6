import { Type } from 'typebox'
import { type Handling, route } from '../../http/route.ts'
import { Closed, Id, Ref } from '../../http/wire.ts'
import { type Role, roles } from '../../identity/caller.ts'
import { toId } from '../../kernel/ids.ts'
import { accountNameOf } from './store.ts'

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

const Caller = Closed(
  { ...CallerFields, account_name: Type.String({ description: 'The name of the account.' }) },
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
    handle: async (request) => ({
      body: { ...toCallerFields(request), account_name: await accountNameOf(request.db, request.caller) },
    }),
  }),
]
