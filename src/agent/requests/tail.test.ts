import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { connect } from '@nats-io/transport-node'
import { startNats } from '../../../dev/nats.ts'
import { connectNode, edgeRequest } from '../../../test/harness/edge_requests.ts'
import { holdsFor, poll } from '../../../test/harness/poll.ts'
import { defaultChannels } from '../../distribution/channels.ts'
import { readTail, type Tail, type Watch, watchLeaseMs } from '../../distribution/watches.ts'
import { type Id, newId, newUuid } from '../../kernel/ids.ts'
import { createTail } from './tail.ts'

const nats = await startNats()
after(() => nats.stop())
const control = await connect({ servers: nats.url, user: 'control-plane', pass: 'control-plane' })
after(() => control.close())
const { nats: node } = await connectNode({ after }, nats.url)
const tail = createTail('edge-1')
after(() => tail.stop())
tail.connect(node, defaultChannels)
await node.flush()
const tails: Tail[] = []
control.subscribe(defaultChannels.tail('*'), {
  callback: (_, message) =>
    void tails.push(readTail(message.string(), message.subject) ?? assert.fail(message.string())),
})
await control.flush()

const edge = { id: newId('edghts') }
const watch = (accountId: Id<'ac'>, fields: Partial<Watch> = {}): Watch => ({
  id: newUuid(),
  account: accountId,
  edge: null,
  outcome: null,
  source: null,
  ...fields,
})
async function say(process: string, watches: Watch[]): Promise<void> {
  const before = tail.watches()
  control.publish(defaultChannels.watches, JSON.stringify({ process, watches }))
  await poll(() => tail.watches() !== before)
}
const shownTo = ({ id }: Watch) =>
  tails.flatMap(({ lines }) => lines.filter(({ watches }) => watches.includes(id)).map(({ request }) => request.id))
const droppedFor = ({ id }: Watch) =>
  tails.flatMap(({ dropped }) => dropped.filter((each) => each.watch === id)).reduce((sum, { count }) => sum + count, 0)

test('a node tells each viewer what it watches, and nothing without a watch or after its lease', async () => {
  const [mine, theirs] = [{ accountId: newId('ac') }, { accountId: newId('ac') }]
  tail.add(edgeRequest(mine, edge), Date.now())
  const all = watch(mine.accountId)
  const refused = watch(mine.accountId, { outcome: 'refused', source: '192.0.2.0/24' })
  await say('one', [all, refused])
  const requests = [
    edgeRequest(mine, edge),
    edgeRequest(mine, edge, { outcome: 'allowed', reason: null }),
    edgeRequest(mine, edge, { source: '198.51.100.1' }),
    edgeRequest(theirs, edge),
    edgeRequest(mine, edge, { account: null }),
  ]
  for (const request of requests) tail.add(request, Date.now())
  await poll(() => shownTo(all).length === 3)
  assert.deepEqual(shownTo(refused), [requests[0]?.id])
  const until = Date.now() + watchLeaseMs + 1_000
  tail.add(edgeRequest(mine, edge), until)
  await holdsFor(300, () => shownTo(all).length === 3)
  assert.equal(tail.watches(), 0)
})

test('what comes faster than anybody reads is counted for each viewer, and other accounts are shown theirs', async () => {
  const [loud, quiet] = [{ accountId: newId('ac') }, { accountId: newId('ac') }]
  const [first, second, third] = [watch(loud.accountId), watch(loud.accountId), watch(quiet.accountId)]
  await say('two', [first, second, third])
  tail.add(edgeRequest(quiet, edge), Date.now())
  for (let i = 0; i < 10_000; i++) tail.add(edgeRequest(loud, edge), Date.now())
  const mine = edgeRequest(quiet, edge)
  tail.add(mine, Date.now())
  await poll(() => shownTo(third).includes(mine.id))
  await poll(() => shownTo(first).length + droppedFor(first) === 10_000)
  assert.equal(shownTo(second).length + droppedFor(second), 10_000)
  assert.ok(droppedFor(first) >= 9_000, `${droppedFor(first)}`)
  assert.equal(droppedFor(third), 0)
})
