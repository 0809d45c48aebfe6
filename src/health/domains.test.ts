import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { test } from 'node:test'
import { type DomainFacts, domainStatus, validity } from './domains.ts'
import { codes, type Status } from './status.ts'
import { webhookStatus } from './webhooks.ts'

const at = '2026-01-15T12:00:00.000Z'
const now = Date.parse('2026-01-15T13:00:00.000Z')
const shown = ({ state, code }: Status): string => `${state} ${code}`

test('a domain is down until it is verified, and a certificate once clients refuse it', () => {
  const domain = (
    status: DomainFacts['verification']['status'],
    management: DomainFacts['certificate_management_status'] = null,
  ): DomainFacts => ({
    verification: { status, name: '_x.example', verified_at: at, lapses_at: at, error: null },
    certificate_management_status: management,
  })
  const job = (error_code: string | null) => ({ error_code, msg: 'no record.', started_at: null })
  const valid = { not_before: at, not_after: '2027-01-01T00:00:00.000Z', expiry: 'later' } as const
  const expired = { ...valid, not_after: at, expiry: 'expired' } as const
  const of = (...[facts, certificate]: [DomainFacts, typeof valid | typeof expired | undefined]) =>
    shown(domainStatus(facts, certificate, now))
  assert.equal(of(domain('pending'), undefined), 'down domain_unverified')
  assert.equal(of(domain('lapsed'), valid), 'down domain_lapsed')
  assert.equal(of(domain('failing'), valid), 'degraded domain_record_gone')
  assert.equal(of(domain('verified'), valid), 'up ok')
  assert.equal(of(domain('assigned'), undefined), 'up ok')
  assert.equal(of(domain('verified'), expired), 'down certificate_expired')
  assert.equal(
    of(domain('verified', { renews_at: null, provisioning_job: job(null) }), undefined),
    'unknown certificate_ordered',
  )
  assert.equal(
    of(domain('verified', { renews_at: null, provisioning_job: job('dns') }), undefined),
    'down certificate_order_failing',
  )
  assert.equal(
    of(domain('verified', { renews_at: at, provisioning_job: job('dns') }), valid),
    'degraded certificate_order_failing',
  )
  assert.match(
    domainStatus(domain('verified', { renews_at: at, provisioning_job: job('dns') }), valid, now).reason,
    /fails: no record\.$/,
  )
  assert.equal(shown(validity({ ...valid, expiry: 'soon' }, now)), 'degraded certificate_expiring')
  assert.equal(
    shown(validity({ ...valid, not_before: '2026-06-01T00:00:00.000Z' }, now)),
    'down certificate_not_valid_yet',
  )
})

test('a webhook is up once something was delivered, and not before', () => {
  const fine = { enabled: true, disabled_reason: null, failing_since: null, last_delivered_at: at }
  assert.equal(shown(webhookStatus(fine)), 'up ok')
  assert.equal(shown(webhookStatus({ ...fine, last_delivered_at: null })), 'unknown nothing_sent_yet')
  assert.equal(shown(webhookStatus({ ...fine, failing_since: at })), 'down delivery_failing')
  assert.equal(shown(webhookStatus({ ...fine, enabled: false })), 'down disabled')
  assert.equal(
    shown(webhookStatus({ ...fine, enabled: false, disabled_reason: 'failing' })),
    'down disabled_after_failures',
  )
  assert.equal(shown(webhookStatus({ ...fine, enabled: false, disabled_reason: 'gone' })), 'down receiver_gone')
})

test('docs/explain/health.md lists every code, and no other', async () => {
  const page = await readFile(new URL('../../docs/explain/health.md', import.meta.url), 'utf8')
  const listed = [...page.matchAll(/^\| `([a-z_]+)` \| (?:up|degraded|down|unknown)\b/gm)].map(([, code]) => code)
  assert.deepEqual(listed, [...codes])
})
