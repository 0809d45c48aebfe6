import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { UpstreamHealth } from '../../src/distribution/channels.ts'
import { latencyBucket, noTraffic } from '../../src/kernel/edge/traffic.ts'
import { newUuid } from '../../src/kernel/ids.ts'
import { keepTraffic } from '../../src/resources/traffic_statistics/keep.ts'
import { freshHost, make } from '../harness/fixtures.ts'
import { startFleet } from '../harness/reporting_nodes.ts'
import { openBrowser, openPage, signIn } from './browser.ts'

const { db, origin, newAccount, report } = await startFleet({ after })
const browser = await openBrowser({ after })

test('the page of an edge says which upstream fails, on which node, since when and why', async () => {
  const admin = await newAccount()
  const backend = await make(admin, '/backends/static', { address: 'app.internal:8080' })
  const tcp = await make(admin, '/edges/tcp', { hostports: ['db.example:20001'], backend: { backend_id: backend.id } })
  const seen = (status: UpstreamHealth['status']) => ({
    ...{ backend: backend.id, address: '192.0.2.7', port: 8080, status, reason: 'TLS: the certificate has expired' },
    since: new Date(Date.now() - 3 * 60_000).toISOString(),
  })
  await report('edge-1', { health: [seen('failing')] })
  const page = await openPage(browser)
  await signIn(page, origin, admin.token, `/edges/${tcp.id}`)
  await page.getByText('Degraded', { exact: true }).waitFor()
  const note = page.getByRole('status').filter({ hasText: '192.0.2.7:8080' })
  assert.match(
    (await note.innerText()).replaceAll(/\s+/g, ' '),
    /192\.0\.2\.7:8080: Requests failed .* Since 3 min\. ago$/,
  )
  const table = page.getByRole('region', { name: 'Backend health' })
  await table.getByRole('columnheader', { name: 'edge-1' }).waitFor()
  assert.deepEqual(await table.getByRole('columnheader').allInnerTexts(), ['Backend', 'edge-1'])
  const row = table.getByRole('row').filter({ hasText: '192.0.2.7:8080' })
  await row.getByText('Failing', { exact: true }).waitFor()
  await table.getByText('TLS: the certificate has expired, since 3 min. ago').waitFor()
  // A phone has no room for a column for each node.
  await page.setViewportSize({ width: 390, height: 844 })
  await row.getByText('Failing on edge-1').waitFor()
  assert.deepEqual(await table.getByRole('columnheader').allInnerTexts(), ['Backend', 'Health'])

  // Two routes that share an upstream, one of them through a group, do not make two of it.
  const group = await make(admin, '/backends/failover', { backends: [backend.id] })
  const https = await make(admin, '/edges/https', { hostports: ['app.example:443'] })
  for (const [match, id] of [
    ['/', group.id],
    ['/direct', backend.id],
  ])
    await make(admin, `/edges/https/${https.id}/routes`, {
      match_type: 'path_prefix',
      match,
      backend: { backend_id: id },
    })
  await page.setViewportSize({ width: 1280, height: 900 })
  await page.goto(`${origin}/dashboard/edges/${https.id}`)
  await note.getByText('failed within the last five minutes').waitFor()
  // `waitFor` also fails for more than one.
  await row.waitFor()

  // The whole account in one read, which another account's is not part of.
  const { body } = await admin('GET', '/backend_health')
  assert.deepEqual(
    [body.total, body.addresses.map(({ address, node, status }: Record<string, string>) => [address, node, status])],
    [1, [['192.0.2.7:8080', 'edge-1', 'failing']]],
  )
  assert.equal((await admin('GET', '/backend_health?status=down')).body.total, 0)
  assert.equal((await (await newAccount())('GET', '/backend_health')).body.total, 0)
  await page.getByTitle('Backends: 2 backends are degraded').waitFor()
  await report('edge-1', { health: [seen('down')] })
  await page.goto(`${origin}/dashboard/`)
  await page.getByTitle('Backends: 2 backends are down').waitFor()
  await page.getByTitle('Edges: 2 edges are down').waitFor()
  const item = page.getByRole('listitem').filter({ hasText: 'app.internal:8080 is down' })
  assert.match(await item.innerText(), /192\.0\.2\.7:8080: It does not answer: TLS: the certificate has expired/)
  assert.deepEqual(page.faults, [])
})

test('an edge shows its requests, errors and latency in the range of the URL, and says which nodes do not count', async () => {
  const admin = await newAccount()
  const edge = await make(admin, '/edges/https', { hostports: [`${freshHost()}:443`] })
  const route = await make(admin, `/edges/https/${edge.id}/routes`, { match_type: 'path_prefix', match: '/shop' })
  const minute = Date.now() - (Date.now() % 60_000)
  const count = (at: number, requests: number, errors: number) => ({
    ...{ account: admin.accountId, edge: edge.id, route: route.id, backend: null, minute: at },
    counts: [requests, 0, 0, errors, ...noTraffic().slice(4)],
    latencies: [latencyBucket(20), requests],
  })
  const counts = [count(minute - 60_000, 90, 9), count(minute - 5 * 3_600_000, 1_000, 0)]
  await keepTraffic(db, 'edge-1', { sender: newUuid(), batch: 1, lost: 0, counts }, Date.now())
  await report('edge-1', { countsTraffic: true })
  await report('edge-2', {})
  const page = await openPage(browser)
  await signIn(page, origin, admin.token, `/edges/${edge.id}?tab=traffic`)
  const traffic = page.getByRole('region', { name: 'Traffic' })
  await traffic.getByText('1,090', { exact: true }).waitFor()
  await traffic.getByText('1 node is silent or does not count').waitFor()
  await traffic.getByText('1 h', { exact: true }).click()
  await traffic.getByText('10% of requests').waitFor()
  assert.match(page.url(), /[?&]range=1(&|$)/)
  await traffic.locator('.stat-figure').getByText('20 ms', { exact: true }).waitFor()
  const errors = traffic.getByRole('figure', { name: 'Errors' })
  await errors.getByText('View as table').click()
  await errors.getByRole('cell', { name: '9', exact: true }).waitFor()
  // Where some do not count, no count says nothing.
  const silent = await make(admin, '/edges/https', { hostports: [`${freshHost()}:443`] })
  await page.goto(`${origin}/dashboard/edges/${silent.id}?tab=traffic`)
  await traffic.getByText('nothing was counted').first().waitFor()
  assert.deepEqual(await traffic.locator('.stat-figure').allInnerTexts(), Array(4).fill('Unknown'))
  assert.equal(await traffic.getByText(/no requests|nothing was answered/).count(), 0)
  assert.deepEqual(page.faults, [])
})
