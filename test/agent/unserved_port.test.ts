import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startInstallation } from '../harness/edge.ts'
import { poll } from '../harness/poll.ts'

test('a TCP edge on a port that a node does not serve is reported as refused by that node', async (t) => {
  const installation = await startInstallation(t)
  const { first, last } = installation.tcpPorts
  await installation.startEdge({ env: { GATEHOUSE_TCP_PORTS: `${first}-${last - 1}` } })
  const { admin } = installation
  const served = await admin('POST', '/edges/tcp?wait=applied', { hostports: [`tcp.example:${last - 1}`] })
  assert.equal(served.headers.get('service-applied'), '1/1')
  const { headers } = await admin('POST', '/edges/tcp', { hostports: [`tcp.example:${last}`] })
  const { body } = await poll(
    () => admin('GET', `/generations/${headers.get('service-generation')}`),
    ({ body: { refusals } }) => refusals.length > 0,
  )
  const reason = `is not reached on port ${last}: this node listens on ports ${first} to ${last - 1} (GATEHOUSE_TCP_PORTS)`
  assert.deepEqual([body.refusals.length, body.refusals[0].node, body.refusals[0].reason], [1, 'edge-1', reason])
})
