import { newCertificate } from '../harness/certificates.ts'
import type { Account } from '../harness/control_plane.ts'
import { make } from '../harness/fixtures.ts'
import { getFrom, putRules, restrict } from '../harness/ip.ts'

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
  const certificate = await make(admin, '/tls_certificates', {
    ...newCertificate(['app.example', '*.app.example']),
    description: 'the app',
  })
  const domain = await make(admin, '/reserved_domains', { domain: 'app.example', certificate_id: certificate.id })
  const pages = [
    '/',
    '/traffic',
    '/traffic/019a0000-0000-7000-8000-000000000000',
    '/keys',
    '/policies',
    `/policies/${policy.id}`,
    '/restrictions',
    '/newly-refused',
    '/edges',
    `/edges/${edge.id}`,
    `/edges/${tcp.id}`,
    '/check?ip=127.0.0.9&target=api',
    '/audit',
    '/backends',
    '/domains',
    `/domains/${domain.id}`,
    '/certificates',
    `/certificates/${certificate.id}`,
    '/nodes',
    '/people',
    '/webhooks',
    `/webhooks/${webhook.id}`,
    `/webhooks/${webhook.id}?tab=dead`,
  ]
  return { policy, edge, domain, certificate, pages }
}

/** 127.0.0.9 calls the API and is then shut out, by a replacement of the rules. */
export async function furnishRefusal(admin: Account, { port }: { port: number }) {
  const policy = await make(admin, '/ip_policies', { description: 'networks' })
  await putRules(admin, policy.id, ['allow 127.0.0.0/8'])
  await restrict(admin, { type: 'api', description: 'networks only', enforced: true, ip_policy_ids: [policy.id] })
  const call = () => getFrom({ host: '127.0.0.1', port, localAddress: '127.0.0.9' }, '/caller', admin.token, [])
  const statuses = [(await call()).status]
  await putRules(admin, policy.id, ['allow 127.0.0.1'])
  statuses.push((await call()).status)
  return { policy, statuses }
}
