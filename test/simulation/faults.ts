import { progressKey } from '../../src/distribution/channels.ts'
import { type Signer, seal } from '../../src/distribution/signature.ts'
import type { ControlPlane } from './control_plane.ts'
import type { Nats } from './nats.ts'
import type { Node } from './node.ts'
import type { Postgres } from './postgres.ts'
import type { Scheduler } from './scheduler.ts'

export type World = {
  scheduler: Scheduler
  nats: Nats
  postgres: Postgres
  publishers: ControlPlane[]
  nodes: Node[]
  signer: Signer
}

type Fault = (world: World) => void

const later = ({ scheduler }: World, mostMs: number, work: () => void) =>
  scheduler.at(scheduler.chance.next() * mostMs, undefined, work)

function tamper({ scheduler, nats }: World): void {
  const { chance } = scheduler
  const entries = nats.records()?.byKey
  if (!entries || entries.size === 0) return
  const [key, { data }] = chance.pick([...entries])
  const choice = chance.below(4)
  if (choice === 0) {
    scheduler.tell('intruder', `writes an answer of NATS over ${key} in the bucket`)
    nats.overwrite(key, Buffer.from('{"type":"io.nats.jetstream.api.v1.stream_info_response"}'))
  } else if (choice === 1) {
    const [other] = chance.pick([...entries])
    if (other === progressKey) return
    scheduler.tell('intruder', `copies ${key} over ${other} in the bucket`)
    nats.overwrite(other, data)
  } else if (choice === 2) {
    const old = chance.pick(nats.archive)
    scheduler.tell('intruder', `puts an old version of ${old.key} back into the bucket`)
    nats.overwrite(old.key, old.data)
  } else {
    scheduler.tell('intruder', `removes ${key} from the bucket`)
    entries.delete(key)
  }
}

/** What only a defect of the control plane does: not among the faults of every history. */
export const defects: Record<string, Fault> = {
  'an entry of the last generation is signed': ({ scheduler, nats, signer }) => {
    const entries = nats.records()?.byKey
    if (!entries || entries.size === 0) return
    const [key, { data }] = scheduler.chance.pick([...entries])
    const said = JSON.parse(JSON.parse(data.toString()).payload)
    scheduler.tell('defect', `signs ${key} as of the last generation`)
    const last = Number.MAX_SAFE_INTEGER
    const wrong = key === progressKey ? { ...said, settled: last } : { ...said, generation: last }
    nats.overwrite(key, Buffer.from(seal(wrong, signer)))
  },
}

/** What can go wrong. Each history has some of these only, so that rare ones meet each other. */
export const faults: Record<string, Fault> = {
  'a publisher is killed': (world) => {
    const publisher = world.scheduler.chance.pick(world.publishers)
    publisher.crash()
    later(world, 4_000, publisher.start)
  },
  'a publisher stands still': ({ scheduler, publishers, postgres }) => {
    const process = scheduler.chance.pick(publishers).process()
    if (!process?.isAlive) return
    const ms = scheduler.chance.next() * 15_000
    scheduler.tell(process.name, `stands still for ${Math.round(ms)} ms`)
    process.pausedUntil = scheduler.now() + ms
    if (scheduler.chance.is(0.7)) postgres.endSession()
  },
  'a session ends': ({ postgres }) => postgres.endSession(),
  'the database is away': ({ scheduler, postgres }) => postgres.stop(scheduler.chance.next() * 5_000),
  'the database is restored': ({ scheduler, postgres, publishers }) => {
    if (scheduler.chance.is(0.5)) return postgres.backUp()
    for (const publisher of publishers) publisher.crash('is stopped')
    postgres.restore()
    for (const publisher of publishers) publisher.start()
  },
  'an agent is killed': (world) => {
    const node = world.scheduler.chance.pick(world.nodes)
    node.crash('the agent is killed')
    later(world, 6_000, node.start)
  },
  'an agent stands still': ({ scheduler, nodes }) => {
    const process = scheduler.chance.pick(nodes).process()
    if (!process?.isAlive) return
    const ms = scheduler.chance.next() * 10_000
    scheduler.tell(process.name, `the agent stands still for ${Math.round(ms)} ms`)
    process.pausedUntil = scheduler.now() + ms
  },
  'a machine loses power': (world) => {
    const node = world.scheduler.chance.pick(world.nodes)
    node.losePower()
    later(world, 6_000, node.start)
  },
  'a machine is replaced': (world) => {
    const node = world.scheduler.chance.pick(world.nodes)
    node.replace()
    later(world, 3_000, node.start)
  },
  'HAProxy dies': ({ scheduler, nodes }) => scheduler.chance.pick(nodes).haproxy.die(),
  'HAProxy does not answer': (world) => {
    const { haproxy, name } = world.scheduler.chance.pick(world.nodes)
    world.scheduler.tell(name, 'HAProxy leaves commands without an answer')
    haproxy.refuse(world.scheduler.chance.pick([1, 3, 10]))
    later(world, 4_000, () => haproxy.refuse(0))
  },
  'HAProxy loses commands': (world) => {
    const { haproxy, name } = world.scheduler.chance.pick(world.nodes)
    world.scheduler.tell(name, 'HAProxy answers as if it had executed commands that it has not')
    haproxy.lose(world.scheduler.chance.pick([1, 3, 10]))
    later(world, 4_000, () => haproxy.lose(0))
  },
  'a disk is full': (world) => {
    const { disk } = world.scheduler.chance.pick(world.nodes)
    disk.setSpace(world.scheduler.chance.pick(['nearly', 'full'] as const))
    later(world, 6_000, () => disk.setSpace('free'))
  },
  'a disk fails': (world) => {
    const { disk } = world.scheduler.chance.pick(world.nodes)
    disk.setFailing(true)
    later(world, 3_000, () => disk.setFailing(false))
  },
  'a clock jumps': ({ scheduler, nodes, publishers }) => {
    const process = scheduler.chance.pick([...nodes, ...publishers]).process()
    if (!process) return
    process.skewMs = scheduler.chance.between(-3_600_000, 3_600_000)
    scheduler.tell(process.name, `its clock jumps to ${process.skewMs} ms off`)
  },
  'NATS is away': ({ scheduler, nats }) => nats.stop(scheduler.chance.next() * 8_000),
  'NATS loses writes': ({ nats }) => nats.loseWrites(),
  'NATS loses all': ({ nats }) => nats.loseAll(),
  'NATS is slow': (world) => {
    world.nats.setSlow(world.scheduler.chance.pick([50, 500, 3_000]))
    later(world, 5_000, () => world.nats.setSlow(2))
  },
  'messages are lost': (world) => {
    world.nats.setLossy(world.scheduler.chance.pick([1, 2, 5]))
    later(world, 8_000, () => world.nats.setLossy(0))
  },
  'a replica is behind': (world) => {
    world.nats.setBehind(true)
    later(world, 5_000, () => world.nats.setBehind(false))
  },
  'a connection is cut': ({ scheduler, nats, nodes, publishers }) => {
    const process = scheduler.chance.pick([...nodes, ...publishers]).process()
    if (process?.isAlive) nats.cutOff(process, scheduler.chance.next() * 10_000)
  },
  'the bucket is tampered with': tamper,
  'an old batch is sent again': ({ scheduler, nats }) => {
    if (nats.oldBatches.length === 0) return
    scheduler.tell('intruder', 'sends an old batch again')
    nats.publish('gatehouse.batches', scheduler.chance.pick(nats.oldBatches))
  },
}
