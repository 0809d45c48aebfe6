import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { type Id, toUuid } from '../../src/kernel/ids.ts'
import { make } from '../harness/fixtures.ts'
import { openBrowser, openPage, signIn, startDashboard } from './browser.ts'

const { origin, newAccount, db } = await startDashboard({ after })
const browser = await openBrowser({ after })

test('the page of an edge says which upstream fails, on which node, since when and why', async () => {
  const admin = await newAccount()
  const backend = await make(admin, '/backends/static', { address: 'app.internal:8080' })
  const tcp = await make(admin, '/edges/tcp', { hostports: ['db.example:20001'], backend: { backend_id: backend.id } })
  await run(
    db,
    sql`
    insert into backend_health (account_id, backend_id, node, address, port, status, reason, since, reported_at)
    values (${toUuid(admin.accountId as Id<'ac'>)}, ${toUuid(backend.id as Id<'bkdst'>)}, 'edge-1', '192.0.2.7', 8080,
      'failing', 'TLS: the certificate has expired', now() - interval '3 minutes', now())`,
  )
  const page = await openPage(browser)
  await signIn(page, origin, admin.token, `/edges/${tcp.id}`)
  await page.getByText('Degraded').waitFor()
  const note = page.getByRole('status').filter({ hasText: '192.0.2.7:8080' })
  assert.equal((await note.innerText()).replaceAll(/\s+/g, ' '), '192.0.2.7:8080 fails on 1 node since 3 min. ago')
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
  await note.getByText('fails on 1 node since').waitFor()
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
  // What fails now and then is no problem of every page; what is down is.
  assert.equal(await page.getByTitle('Backends: Backends are down').count(), 0)
  await run(db, sql`update backend_health set status = 'down' where address = '192.0.2.7'`)
  await page.goto(`${origin}/dashboard/`)
  await page.getByTitle('Backends: Backends are down').waitFor()
  const item = page.getByRole('listitem').filter({ hasText: '192.0.2.7:8080' })
  assert.match(await item.innerText(), /is down on node edge-1\s+TLS: the certificate has expired/)
  assert.deepEqual(page.faults, [])
})
