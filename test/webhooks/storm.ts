import { newId, newUuid, toId, toUuid, type Uuid } from '../../src/kernel/ids.ts'
import type { ControlPlane, Scope } from '../harness/control_plane.ts'
import { pause, poll } from '../harness/poll.ts'
import { random } from '../harness/random.ts'
import { startReceiver } from './receiver.ts'

const resources = 40
const writers = 8

/**
 * Writers make events in transactions that end in any order, some of them not at all, while the receiver is killed, slowed
 * and told to fail at random, and the processes share the work.
 */
export async function storm(scope: Scope, plane: ControlPlane, wanted: number) {
  const admin = await plane.newAccount()
  const accountId = toUuid(admin.accountId as `ac_${string}`)
  const faults: string[] = []
  /** When each event's commit was asked for: nothing may arrive before. */
  const commitAsked = new Map<string, number>()
  let isSlow = false
  const receiver = await startReceiver(scope, () => {
    if (random() < 0.02) return { status: 500 }
    return isSlow ? { status: 204, delayMs: random() * 200 } : undefined
  })
  const created = await admin('POST', '/webhook_destinations', { url: receiver.url(), operations: ['storm.*'] })
  receiver.state.secrets.push(created.body.secret)
  let over = false
  const chaos = (async () => {
    while (!over) {
      await pause(random() * 1_500)
      isSlow = random() < 0.3
      if (random() < 0.4) {
        await receiver.kill()
        await pause(random() * 1_000)
        await receiver.revive()
      }
    }
  })()
  let made = 0
  let number = 0
  await Promise.all(
    Array.from({ length: writers }, async () => {
      while (made < wanted) {
        made++
        number++
        const isCommitted = await write(plane, accountId, number, commitAsked)
        if (!isCommitted) made--
      }
    }),
  )
  const ids = new Set(commitAsked.keys())
  const began = Date.now()
  await poll(
    () => new Set(receiver.received.map(({ id }) => id)).size,
    (count) => count >= ids.size,
    { withinSeconds: 240, everyMs: 250 },
  )
  over = true
  await chaos
  const { rows } = await plane.db.query({
    text: 'select id, position, resource_id from audit_events where account_id = $1 and operation like $2',
    values: [accountId, 'storm.%'],
  })
  const positions = new Map(rows.map(({ id, position }) => [String(id), Number(position)]))
  faults.push(...outOfOrder(receiver.received, positions))
  for (const { id, at } of receiver.received) {
    const asked = commitAsked.get(id)
    if (asked === undefined) faults.push(`${id} was never committed`)
    else if (at < asked) faults.push(`${id} arrived ${asked - at} ms before its commit`)
  }
  const { attempts, refused } = receiver.state
  return {
    faults,
    events: ids.size,
    refused,
    repeated: receiver.received.length - ids.size,
    figures: `${ids.size} events, ${attempts} attempts, ${receiver.received.length - ids.size} delivered twice, the last ${Math.round((Date.now() - began) / 1_000)} s after the last commit`,
  }
}

/** The first arrivals of each resource's events, which have to be in the order of their positions. */
function outOfOrder(received: { id: string; resource: string }[], positions: Map<string, number>): string[] {
  const seen = new Set<string>()
  const last = new Map<string, number>()
  const faults: string[] = []
  for (const { id, resource } of received) {
    if (seen.has(id)) continue
    seen.add(id)
    const position = positions.get(uuidOf(id)) ?? Number.NaN
    if (!(position > (last.get(resource) ?? 0))) faults.push(`${id} of ${resource} is out of order`)
    last.set(resource, position)
  }
  return faults
}
const uuidOf = (id: string): string => toUuid(id as `ev_${string}`)

async function write(plane: ControlPlane, accountId: Uuid, number: number, commitAsked: Map<string, number>) {
  const client = await plane.db.connect()
  const id = newUuid()
  try {
    await client.query('begin')
    await client.query(
      `insert into audit_events (account_id, id, operation, operation_id, resource_id, after)
       values ($1, $2, 'storm.create', $3, $4, '{"some": "fields"}')`,
      [accountId, id, newId('op'), `ak_${number % resources}`],
    )
    if (random() < 0.05) await pause(random() * 100)
    const isCommitted = random() > 0.03
    if (isCommitted) commitAsked.set(toId('ev', id), Date.now())
    await client.query(isCommitted ? 'commit' : 'rollback')
    return isCommitted
  } finally {
    client.release()
  }
}
