// Requests that a node has kept, and a NATS server that accepts 16 KiB at once.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { startNats } from '../../dev/nats.ts'
import { createDelivery } from '../../src/agent/requests/delivery.ts'
import { createKept } from '../../src/agent/requests/kept.ts'
import { defaultChannels } from '../../src/distribution/channels.ts'
import type { RequestBatch } from '../../src/distribution/request_batch.ts'
import { newId } from '../../src/kernel/ids.ts'
import { edgeRequest } from '../harness/edge_requests.ts'
import { connectAsControlPlane } from '../harness/nats.ts'
import { poll } from '../harness/poll.ts'

const maxPayload = 16 * 1024
const nats = await startNats({ maxPayload })
after(() => nats.stop())
const connection = await connectAsControlPlane({ after }, nats)

test('requests arrive in batches that the server accepts', async () => {
  const kept = createKept('edge-1')
  const sent = Array.from({ length: 60 }, () =>
    edgeRequest({ accountId: newId('ac') }, { id: newId('edghts') }, { path: `/${'x'.repeat(1_000)}` }),
  )
  for (const request of sent) kept.add(request, 0)
  const arrived: string[] = []
  connection.subscribe(defaultChannels.requests('edge-1'), {
    callback(_, message) {
      const { requests }: RequestBatch = JSON.parse(message.string())
      arrived.push(...requests.map(({ id }) => id))
      message.respond('kept')
    },
  })
  const delivery = createDelivery(connection, defaultChannels, kept)
  await poll(() => arrived.length >= sent.length)
  await delivery.stop()
  assert.deepEqual(arrived.toSorted(), sent.map(({ id }) => id).toSorted())
})
