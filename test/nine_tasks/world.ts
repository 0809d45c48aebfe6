import { createServer, type Server } from 'node:http'
import { request } from 'node:https'
import type { AddressInfo } from 'node:net'
import { type DbPool, run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { type Id, toUuid } from '../../src/kernel/ids.ts'
import { startDashboardWithEdges } from '../dashboard/browser.ts'
import type { Scope } from '../harness/control_plane.ts'
import { make } from '../harness/fixtures.ts'
import { putRules } from '../harness/ip.ts'
import { poll } from '../harness/poll.ts'

export type World = Awaited<ReturnType<typeof startWorld>>

async function startServer(scope: Scope): Promise<number> {
  const server: Server = createServer((_request, response) => response.end('hello'))
  scope.after(async () => void server.close())
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return (server.address() as AddressInfo).port
}

/** What a new user finds: an account with edges that serve, one thing that is broken, and requests that were refused. */
export async function startWorld(scope: Scope) {
  const installation = await startDashboardWithEdges(scope)
  const { admin, db, startEdge } = installation
  await run(db, sql`update accounts set name = 'Example Shop' where id = ${toUuid(admin.accountId as Id<'ac'>)}`)
  const node = await startEdge()
  const [one, two] = [await startServer(scope), await startServer(scope)]
  const check = { health_check: { type: 'tcp' } }
  const backend = await make(admin, '/backends/static', {
    ...{ description: 'Shop', address: `127.0.0.1:${one}` },
    ...check,
  })
  const broken = await make(admin, '/backends/static', { description: 'Billing', address: '127.0.0.1:9', ...check })
  const offices = await make(admin, '/ip_policies', { description: 'Offices' })
  await putRules(admin, offices.id, [
    'allow 192.0.2.0/24 # Berlin',
    'allow 203.0.113.0/25 # Bonn, closed in May',
    'deny 198.51.100.7 # a scanner',
    'allow 192.0.2.64/26 # Berlin, second floor',
  ])
  const shop = await make(admin, '/edges/https', { description: 'Shop', hostports: ['shop.example:443'] })
  const route = (edge: { id: string }, match: string, to: { id: string }, more: object = {}) =>
    make(admin, `/edges/https/${edge.id}/routes`, {
      ...{ match_type: 'path_prefix', match, backend: { backend_id: to.id } },
      ...more,
    })
  await route(shop, '/', backend)
  await route(shop, '/admin', backend, { ip_restriction: { ip_policy_ids: [offices.id] } })
  const billing = await make(admin, '/edges/https', { description: 'Billing', hostports: ['billing.example:443'] })
  await route(billing, '/', broken)
  for (const description of ['old pipeline', 'trial of March', 'nightly export'])
    await make(admin, '/api_keys', { description })
  await makeOld(db)
  const get = (host: string, path: string) =>
    new Promise<{ status: number; id: string }>((resolve, reject) => {
      const where = { host: '127.0.0.1', port: node.httpsPort, servername: host, headers: { host } }
      request({ ...where, path, rejectUnauthorized: false }, (response) => {
        response
          .resume()
          .on('end', () => resolve({ status: response.statusCode ?? 0, id: String(response.headers['x-request-id']) }))
      })
        .on('error', reject)
        .end()
    })
  await poll(
    () => get('shop.example', '/'),
    ({ status }) => status === 200,
  )
  for (let count = 0; count < 40; count++) await get('shop.example', '/')
  await get('billing.example', '/')
  const refused = await poll(
    () => get('shop.example', '/admin'),
    ({ status }) => status === 403,
  )
  await poll(async () => (await admin('GET', `/requests/${refused.id}`)).status === 200)
  await poll(async () => (await admin('GET', '/edges/https')).body.https_edges.every(isSettled))
  return { ...installation, shop, offices, backend, refusedId: refused.id, spareAddress: `127.0.0.1:${two}` }
}

const isSettled = ({ description, status }: { description: string; status: { state: string } }): boolean =>
  status.state === (description === 'Billing' ? 'down' : 'up')

/** Some keys and rules have been there for months, unused. */
async function makeOld(db: DbPool): Promise<void> {
  const began = sql`now() - interval '120 days'`
  await run(db, sql`update ip_rule_counting set began_at = ${began}`)
  await run(db, sql`update ip_policy_rules set created_at = ${began}`)
  await run(db, sql`update api_keys set created_at = ${began} where description in ('old pipeline', 'trial of March')`)
}
