// An agent of this version works with the NATS configuration of the one before, and keeps working when NATS gets the new one.
import assert from 'node:assert/strict'
import { copyFile, mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { startNats } from '../../dev/nats.ts'
import { startInstallation } from '../harness/edge.ts'
import { make, newHttpsEdge } from '../harness/fixtures.ts'
import { policyWith } from '../harness/ip.ts'
import { poll } from '../harness/poll.ts'
import { sharedAccountConf } from '../hostile/stolen_node.ts'
import { statusOf as httpStatusOf } from '../upgrade/installation.ts'
import { startHttpUpstream } from './http_harness.ts'

test('nodes move to their own NATS accounts when nats-server restarts with the new file, and enforce everything meanwhile', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-nats-'))
  const authorization = join(folder, 'authorization.conf')
  await copyFile(sharedAccountConf, authorization)
  const installation = await startInstallation(t, {}, undefined, startNats({ authorization }))
  const { admin, nats } = installation
  const web = await startHttpUpstream(t, 'web')
  const backend = { backend_id: (await make(admin, '/backends/static', { address: `127.0.0.1:${web.port}` })).id }
  const edge = await newHttpsEdge(admin, { hostports: ['a.example:443'] })
  const addRoute = (match: string, more: object = {}) =>
    make(admin, `${edge.uri}/routes?wait=applied`, { match_type: 'path_prefix', match, backend, ...more })
  const node = await installation.startEdge()
  await addRoute('/')
  await addRoute('/admin', { ip_restriction: { ip_policy_ids: [await policyWith(admin)] } })
  const isWarned = () => node.log.some(({ msg }) => /in the NATS account of the control plane/.test(`${msg}`))
  assert.ok(isWarned())
  const answers = async () => [await statusAt('/'), await statusAt('/admin')]
  const statusAt = (path: string) => httpStatusOf(node.httpsPort, 'a.example', '127.0.0.1', path)
  assert.deepEqual(await answers(), [200, 403])

  await copyFile(new URL('../../deploy/nats/authorization.conf', import.meta.url), authorization)
  await nats.restart()
  // The buckets are new, in an account of their own: the publisher fills them again.
  await addRoute('/new')
  await poll(
    () => statusAt('/new'),
    (status) => status === 200,
  )
  assert.deepEqual(await answers(), [200, 403])
  const { body } = await admin('GET', '/edge_nodes')
  assert.deepEqual(body.edge_nodes[0].refusals, [])
  const fresh = await installation.startEdge({ env: { GATEHOUSE_EDGE_NODE: 'edge-1' }, cutOff: true })
  await poll(
    () => httpStatusOf(fresh.httpsPort, 'a.example', '127.0.0.1', '/admin'),
    (status) => status === 403,
  )
  assert.ok(!fresh.log.some(({ msg }) => /in the NATS account/.test(`${msg}`)))
})
