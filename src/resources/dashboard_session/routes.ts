import { transaction } from '../../db/transaction.ts'
import { exampleToken } from '../../http/openapi/examples.ts'
import { type Handling, route } from '../../http/route.ts'
import { Closed, Id, type Static, Text, Timestamp } from '../../http/wire.ts'
import { sessionSeconds } from '../../identity/caller.ts'
import { endedSessionCookie, sessionCookie } from '../../identity/session_cookie.ts'
import { hashToken, newSessionSecret } from '../../identity/token.ts'
import { Refusal } from '../../kernel/errors.ts'
import { toId } from '../../kernel/ids.ts'
import { record } from '../../operations/change.ts'
import { CallerFields, toCallerFields } from '../caller/routes.ts'
import { deleteSession, endOldestSessions, findSession, insertSession, type SessionRow } from './store.ts'

const DashboardSession = Closed(
  { id: Id('ses'), created_at: Timestamp, expires_at: Timestamp, ...CallerFields },
  { title: 'DashboardSession' },
)

type Calling = Pick<Handling<object, object, unknown>, 'caller' | 'origin' | 'uri'>
const toSession = ({ id, ...times }: SessionRow, request: Calling): Static<typeof DashboardSession> => ({
  id: toId('ses', id),
  ...times,
  ...toCallerFields(request),
})

const noSession = () =>
  new Refusal(
    'ERR_NOT_FOUND',
    'This request used a bearer token, not a session cookie. Send the cookie of a dashboard session.',
  )

export const dashboardSessionRoutes = [
  route({
    operation: 'dashboard_session.sign_in',
    summary: 'Sign in to the dashboard with the token of an API key. The session secret is returned only as a cookie',
    method: 'POST',
    path: '/dashboard_session',
    body: Closed({ token: Text(200, 'The token of an API key.', exampleToken) }),
    success: 201,
    response: DashboardSession,
    access: 'anyone',
    openToViewers: true,
    signsIn: true,
    setsCookie: true,
    errors: ['ERR_FORBIDDEN', 'ERR_OTHER_SITE'],
    handle: (request) =>
      transaction(request.db, async (tx) => {
        const secret = newSessionSecret()
        const hashes = { token: hashToken(request.body.token), secret: hashToken(secret) }
        const session = await insertSession(tx, request.caller, hashes)
        if (!session)
          throw new Refusal('ERR_UNAUTHENTICATED', 'The token is not valid. Use the token of an active API key.')
        await endOldestSessions(tx, request.caller)
        const shown = toSession(session, request)
        await record(tx, request.origin, { resourceId: shown.id, before: null, after: shown })
        return { body: shown, cookie: sessionCookie(request.uri(''), secret, sessionSeconds) }
      }),
  }),
  route({
    operation: 'dashboard_session.get',
    summary: 'Get the current dashboard session',
    method: 'GET',
    path: '/dashboard_session',
    success: 200,
    response: DashboardSession,
    access: 'anyone',
    errors: ['ERR_NOT_FOUND'],
    async handle(request) {
      const { db, caller } = request
      const session = caller.sessionId && (await findSession(db, caller, caller.sessionId))
      if (!session) throw noSession()
      return { body: toSession(session, request) }
    },
  }),
  route({
    operation: 'dashboard_session.sign_out',
    summary: 'Sign out of the dashboard. The cookie stops working immediately, on every process',
    method: 'DELETE',
    path: '/dashboard_session',
    success: 204,
    access: 'anyone',
    openToViewers: true,
    setsCookie: true,
    errors: ['ERR_NOT_FOUND'],
    handle: (request) =>
      transaction(request.db, async (tx) => {
        const { caller } = request
        if (!caller.sessionId) throw noSession()
        const session = await deleteSession(tx, caller, caller.sessionId)
        if (session) {
          const before = toSession(session, request)
          await record(tx, request.origin, { resourceId: before.id, before, after: null })
        }
        return { body: undefined, cookie: endedSessionCookie(request.uri('')) }
      }),
  }),
]
