import { transaction } from '../../db/transaction.ts'
import { webhookStatuses } from '../../health/shown.ts'
import { type InstallationSettings, route } from '../../http/route.ts'
import { Closed } from '../../http/wire.ts'
import { newWebhookSecret } from '../../kernel/crypto/webhook_signature.ts'
import { invalidField } from '../../kernel/errors.ts'
import { toPage } from '../../kernel/paging.ts'
import { parseRfc3339 } from '../../kernel/time.ts'
import { newAnnotations, patchedAnnotations } from '../../operations/annotations.ts'
import { record } from '../../operations/change.ts'
import { actionRoute, createRoute, deleteRoute, updateRoute } from '../../operations/change_routes.ts'
import { getRoute, listRoute } from '../../operations/read_routes.ts'
import { existing, type Resource } from '../../operations/resource.ts'
import { secretsOf } from '../../operations/secrets.ts'
import { listDeliveries, replayDead, replayEvents } from './deliveries.ts'
import {
  WebhookDeliveryList,
  WebhookDeliveryQuery,
  WebhookDestination,
  WebhookDestinationCreate,
  WebhookDestinationQuery,
  WebhookDestinationRotate,
  WebhookDestinationUpdate,
  WebhookReplay,
  WebhookReplayed,
} from './schema.ts'
import {
  type DestinationRow,
  deleteDestination,
  findDestination,
  insertDestination,
  listDestinations,
  rotateSecret,
  updateDestination,
} from './store.ts'
import { stableDestinationFields, toDestination } from './view.ts'

/** The secret exists only between the change and its response. */
type DestinationWithSecret = DestinationRow & { secret?: string | null }

const destinations: Resource<{ id: 'whd' }, DestinationWithSecret, typeof WebhookDestination> = {
  name: 'webhook_destinations',
  quota: 'webhook_destinations',
  path: '/webhook_destinations',
  params: { id: 'whd' },
  shape: WebhookDestination,
  view: toDestination,
  statuses: webhookStatuses,
  find: findDestination,
  secret: 'secret',
  stableFields: stableDestinationFields,
}

function checkUrl({ url }: { url?: string }, { webhookUrlFault }: InstallationSettings): void {
  const fault = url === undefined ? undefined : webhookUrlFault(url)
  if (fault) throw invalidField('url', fault)
}

/** Mail reaches people who did not ask for it, so it is limited to alerts, whose number is bounded. */
function checkFormat({ url, format, operations }: Pick<DestinationRow, 'url' | 'format' | 'operations'>): void {
  if ((format === 'email') !== isMailUrl(url))
    throw invalidField('url', 'must begin with mailto: if, and only if, the format is email')
  const isForAlerts = operations.every((pattern) => pattern.startsWith('alerts.'))
  if (format === 'email' && !isForAlerts)
    throw invalidField('operations', 'must be alerts.*, alerts.fire or alerts.resolve if the format is email')
}
const isMailUrl = (url: string): boolean => /^mailto:/i.test(url)

const changes = [
  createRoute(destinations, {
    summary: 'Create a webhook destination. Its secret is returned only in this response',
    access: 'admin',
    body: WebhookDestinationCreate,
    check: checkUrl,
    errors: ['ERR_NO_SECRETS_KEY'],
    async insert(
      tx,
      { caller, settings, body: { url, format = 'standard', operations = ['*'], enabled = true, ...sent } },
    ) {
      checkFormat({ url, format, operations })
      const box = secretsOf(settings, 'secrets of webhooks')
      const secret = newWebhookSecret()
      const row = await insertDestination(
        tx,
        caller,
        { url, format, operations, enabled, secret, ...newAnnotations(sent) },
        box,
      )
      return { ...row, secret }
    },
  }),
  getRoute(destinations, { access: 'admin' }),
  listRoute(destinations, {
    access: 'admin',
    field: 'webhook_destinations',
    query: WebhookDestinationQuery,
    select: listDestinations,
  }),
  updateRoute(destinations, {
    access: 'admin',
    body: WebhookDestinationUpdate,
    check: checkUrl,
    async apply(tx, { caller, params, body }, before) {
      const {
        url = before.url,
        format = before.format,
        operations = before.operations,
        enabled = before.enabled,
      } = body
      const after = {
        ...patchedAnnotations(before, body),
        ...{ url, format, operations, enabled },
        disabled_reason: enabled ? null : before.disabled_reason,
      }
      checkFormat(after)
      await updateDestination(tx, caller, before.id, after)
      return (await findDestination(tx, caller, params.id, false)) ?? { ...before, ...after }
    },
  }),
  actionRoute(destinations, {
    verb: 'rotate',
    summary:
      'Rotate the secret of a webhook destination. The new secret is returned only in this response, and events have signatures by both until the overlap ends',
    access: 'admin',
    body: WebhookDestinationRotate,
    errors: ['ERR_NO_SECRETS_KEY'],
    async apply(tx, { caller, params, settings, body: { overlap_seconds = 24 * 60 * 60 } }, before) {
      const secret = newWebhookSecret()
      const box = secretsOf(settings, 'secrets of webhooks')
      await rotateSecret(tx, caller, params.id, { secret, overlapSeconds: overlap_seconds }, box)
      return { ...((await findDestination(tx, caller, params.id, false)) ?? before), secret }
    },
    audited: ({ previous_secret_expires_at }) => ({ previous_secret_expires_at }),
  }),
  actionRoute(destinations, {
    verb: 'test',
    summary: 'Send a test event to a webhook destination, bypassing its filter. Its deliveries show the result',
    access: 'admin',
    body: Closed({}),
    apply: async (_tx, _request, before) => ({ ...before, secret: null }),
    audited: () => ({ tested: true }),
  }),
  deleteRoute(destinations, {
    summary: 'Delete a webhook destination. Events that were not delivered are not sent any more',
    access: 'admin',
    remove: (tx, { caller, params }) => deleteDestination(tx, caller, params.id),
  }),
]

export const webhookDestinationRoutes = [
  ...changes,
  route({
    operation: 'webhook_destinations.deliveries',
    summary: 'List the deliveries of a webhook destination, newest event first',
    method: 'GET',
    path: '/webhook_destinations/:id/deliveries',
    params: { id: 'whd' },
    query: WebhookDeliveryQuery,
    success: 200,
    response: WebhookDeliveryList,
    access: 'admin',
    async handle(request) {
      const { db, caller, params, query, uri } = request
      await existing(destinations, db, request, false)
      const rows = await listDeliveries(db, caller, params.id, query)
      const { items, ...page } = toPage(rows, query, uri(`/webhook_destinations/${params.id}/deliveries`))
      return { body: { deliveries: items, ...page } }
    },
  }),
  route({
    operation: 'webhook_destinations.replay',
    summary: 'Send events to a webhook destination again: given ones, or all dead ones since a time',
    method: 'POST',
    path: '/webhook_destinations/:id/replay',
    params: { id: 'whd' },
    body: WebhookReplay,
    success: 200,
    response: WebhookReplayed,
    access: 'admin',
    check({ event_ids, since }) {
      if ((event_ids === undefined) === (since === undefined))
        throw invalidField('event_ids', 'or since is required, and not both')
    },
    handle: (request) =>
      transaction(request.db, async (tx) => {
        const { caller, params, body, origin, uri } = request
        const row = await existing(destinations, tx, request, true)
        const replayed = body.event_ids
          ? await replayEvents(tx, caller, params.id, body.event_ids)
          : await replayDead(tx, caller, params.id, parseRfc3339(body.since ?? '') ?? 0)
        const shown = stableDestinationFields(toDestination(row, uri))
        await record(tx, origin, { resourceId: params.id, before: shown, after: { ...shown, replayed } })
        return { body: { replayed } }
      }),
  }),
]
