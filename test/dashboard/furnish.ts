import type { Account } from '../harness/control_plane.ts'
import { make } from '../harness/fixtures.ts'
import { putRules } from '../harness/ip.ts'

/** An account with something on every page, and the pages. */
export async function furnish(admin: Account) {
  await make(admin, '/api_keys', { description: 'nightly backup' })
  const policy = await make(admin, '/ip_policies', { description: 'offices' })
  await putRules(admin, policy.id, ['allow 127.0.0.0/8 # here', 'deny 127.0.0.9 # not there'])
  const restriction = { type: 'api', description: 'offices only', ip_policy_ids: [policy.id] }
  await make(admin, '/ip_restrictions', restriction)
  const backend = await make(admin, '/backends/static', { address: 'app.internal:8080' })
  const edge = await make(admin, '/edges/https', { hostports: ['app.example:443'] })
  await make(admin, `/edges/https/${edge.id}/routes`, {
    match_type: 'path_prefix',
    match: '/',
    backend: { backend_id: backend.id },
    ip_restriction: { ip_policy_ids: [policy.id] },
    request_headers: { add: { 'X-Team': 'storage' }, remove: ['Cookie'] },
  })
  const tcp = await make(admin, '/edges/tcp', { hostports: ['db.example:20001'], backend: { backend_id: backend.id } })
  // Nobody answers there, so its page shows a failing delivery.
  const webhook = await make(admin, '/webhook_destinations', {
    url: 'https://hooks.invalid/audit',
    description: 'siem',
  })
  const pages = [
    '/',
    '/keys',
    '/policies',
    `/policies/${policy.id}`,
    '/restrictions',
    '/edges',
    `/edges/${edge.id}`,
    `/edges/${tcp.id}`,
    '/check?ip=127.0.0.9&target=api',
    '/audit',
    '/backends',
    '/nodes',
    '/people',
    '/webhooks',
    `/webhooks/${webhook.id}`,
    `/webhooks/${webhook.id}?tab=dead`,
  ]
  return { policy, edge, pages }
}
