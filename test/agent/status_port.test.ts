import assert from 'node:assert/strict'
import { once } from 'node:events'
import { Agent, get } from 'node:http'
import { type AddressInfo, connect, createServer } from 'node:net'
import { test } from 'node:test'
import { freePort } from '../../dev/ports.ts'
import { startInstallation } from '../harness/edge.ts'
import { poll } from '../harness/poll.ts'

test('an agent whose status port is taken ends before it starts HAProxy, which it would leave behind', async (t) => {
  const { startEdge } = await startInstallation(t)
  const other = createServer().listen(0, '127.0.0.1')
  await once(other, 'listening')
  t.after(() => other.close())
  const httpsPort = await freePort()
  const env = {
    GATEHOUSE_EDGE_STATUS_LISTEN: `127.0.0.1:${(other.address() as AddressInfo).port}`,
    GATEHOUSE_EDGE_HTTPS_LISTEN: `127.0.0.1:${httpsPort}`,
  }
  await assert.rejects(startEdge({ env, cutOff: true }), /ended with 1 before it served/)
  await assert.rejects(once(connect(httpsPort, '127.0.0.1'), 'connect'), { code: 'ECONNREFUSED' })
})

test('an agent ends although a monitor asks it all the time over one connection', async (t) => {
  const { startEdge } = await startInstallation(t)
  const { child, statusUrl } = await startEdge()
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.after(() => agent.destroy())
  let answers = 0
  const askOn = () => {
    const asked = get(`${statusUrl}/metrics`, { agent }, (response) => {
      response.resume().on('end', () => {
        answers++
        askOn()
      })
    })
    asked.on('error', () => {})
  }
  askOn()
  await poll(() => answers > 10)
  const ended = once(child, 'exit')
  child.kill('SIGTERM')
  assert.deepEqual(await ended, [0, null])
})
