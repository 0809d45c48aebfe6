import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { Webhook } from 'standardwebhooks'
import { verifyWebhook, WebhookError } from '../../clients/typescript/src/webhooks.ts'

const newSecret = () => `whsec_${randomBytes(32).toString('base64')}`
const [secret, older] = [newSecret(), newSecret()]
const body = JSON.stringify({ type: 'api_keys.create', timestamp: '2026-11-15T12:00:00.000Z', data: { id: 'ev_ü' } })
/** Signed by the reference library, as the service's own tests have it verify. */
const headersBy = (secrets: string[], at = new Date()) => ({
  'webhook-id': 'ev_1',
  'webhook-timestamp': String(Math.floor(at.getTime() / 1_000)),
  'webhook-signature': secrets.map((each) => new Webhook(each).sign('ev_1', at, body)).join(' '),
})

test('an event is verified with the headers of a browser or of Node, and with either secret of a rotation', async () => {
  assert.equal((await verifyWebhook(secret, headersBy([secret]), body)).type, 'api_keys.create')
  for (const either of [secret, older])
    assert.equal((await verifyWebhook(either, new Headers(headersBy([older, secret])), body)).data.id, 'ev_ü')
})

test('an event that was changed, is old, or was signed by another is refused', async () => {
  const good = headersBy([secret])
  const old = headersBy([secret], new Date(Date.now() - 301_000))
  const cases: [what: string, secret: string, headers: Record<string, string>, body: string][] = [
    ['another body', secret, good, body.replace('create', 'delete')],
    ['another id', secret, { ...good, 'webhook-id': 'ev_2' }, body],
    ['another time', secret, { ...good, 'webhook-timestamp': String(Number(good['webhook-timestamp']) + 1) }, body],
    ['another secret', older, good, body],
    ['an old one', secret, old, body],
    ['no signature', secret, { ...good, 'webhook-signature': '' }, body],
    [
      'another kind of signature',
      secret,
      { ...good, 'webhook-signature': good['webhook-signature'].replace('v1', 'v2') },
      body,
    ],
    ['not base64', secret, { ...good, 'webhook-signature': 'v1,?' }, body],
    ['not a time', secret, { ...good, 'webhook-timestamp': 'NaN' }, body],
    ['no headers', secret, {}, body],
    ['no secret', 'whsec_', good, body],
  ]
  for (const [what, by, headers, text] of cases)
    await assert.rejects(verifyWebhook(by, headers, text), WebhookError, what)
})
