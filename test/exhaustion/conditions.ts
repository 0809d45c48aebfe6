import { stat } from 'node:fs/promises'
import { checkWritableFolder } from '../../src/doctor/folders.ts'
import { stop } from '../harness/control_plane.ts'
import type { Condition } from './examine.ts'
import { clockAhead, memoryLimit, type Part, partsOf, readOnly, startAgain, takenPort } from './parts.ts'
import { type Disk, run, type World } from './world.ts'

type Expected = Omit<Condition, 'name' | 'begin' | 'end'>

/** As the user of the process, because root in a container may not change the limits of others. */
async function prlimit(pid: number | undefined, ...args: string[]): Promise<string> {
  const { uid, gid } = await stat(`/proc/${pid}`)
  const user = [`--reuid=${uid}`, `--regid=${gid}`, '--clear-groups']
  return (await run('setpriv', [...user, 'prlimit', '--pid', `${pid}`, ...args])).stdout
}
/** The soft limit. What is open stays open; nothing more can be opened. */
const limitDescriptors = (pid: number | undefined, limit: number) => prlimit(pid, `--nofile=${limit}:`)
const descriptorLimit = async (pid: number | undefined): Promise<number> =>
  Number(await prlimit(pid, '--nofile', '--output=SOFT', '--noheadings'))
/** Fewer than any of them has open: not even one that is closed can be replaced. */
const fewDescriptors = 3

/** As doctor does for the unit of NATS. */
async function natsFolder({ folder }: Disk): Promise<Record<string, string>> {
  const [found] = await checkWritableFolder({ check: 'nats.folder', setting: 'store_dir', path: folder })
  return { 'doctor there': `${found?.check} ${found?.status}: ${found?.message}` }
}

const cannotWrite = /cannot (be )?writ/
const ofDatabase = { acceptsChanges: false, signs: /PostgreSQL|database/i, alert: 'GatehouseNotReady' }
const ofNats = { acceptsChanges: true, signs: /NATS/, alert: 'GatehouseNatsDisconnected' }
const ofPlane = { acceptsChanges: false, signs: /no answer|cannot be reached/, alert: 'GatehouseDown' }
const ofNode = { acceptsChanges: true, signs: /no edge node responds/, alert: 'GatehouseDown' }
const unwritable = { acceptsChanges: true, signs: cannotWrite, alert: 'GatehouseNodeCannotWrite' }

export function conditions(world: World): Condition[] {
  return [
    ...fullDisks(world),
    ...descriptors(world),
    ...memory(world),
    ...clocks(world),
    ...ports(world),
    ...readOnlyDisks(world),
  ]
}

function fullDisks(world: World): Condition[] {
  const { disks } = world
  const full = (part: string, disk: Disk, rest: Expected): Condition => ({
    name: `full disk: ${part}`,
    begin: disk.fill,
    end: disk.free,
    ...rest,
  })
  const restarted = (what: string, signal: 'SIGKILL' | 'SIGTERM'): Condition => ({
    name: `full disk: node, restarted, ${what}`,
    async begin() {
      await disks.node.fill()
      await restartNode(world, signal)
    },
    end: disks.node.free,
    ...unwritable,
  })
  return [
    full('node', disks.node, unwritable),
    restarted('the agent alone', 'SIGKILL'),
    restarted('with HAProxy', 'SIGTERM'),
    // It keeps serving and applies changes. Lines wait in memory.
    full("node's access log", disks.log, {
      acceptsChanges: true,
      signs: /edge\.access_log failed/,
      alert: undefined,
    }),
    // It goes on without its disk, and tells clients nothing. Only doctor on its machine sees it.
    full('NATS', disks.nats, {
      acceptsChanges: true,
      signs: /nats\.folder failed/,
      alert: undefined,
      more: () => natsFolder(disks.nats),
    }),
    fullDatabase(world),
  ]
}

/** Small changes fit into what PostgreSQL has reserved, so a large one comes first. */
function fullDatabase(world: World): Condition {
  const { disks, postgres } = world
  const { postgres: database } = partsOf(world)
  return {
    name: 'full disk: PostgreSQL',
    async begin() {
      const { body: policy } = await world.admin('POST', '/ip_policies', {})
      await disks.postgres.fill()
      const rules = Array.from({ length: 20_000 }, (_, index) => `allow 10.${index >> 8}.${index & 255}.0/24`)
      const { status, text } = await world.clientFor(world.admin.token)(
        'PUT',
        `/ip_policies/${policy.id}/rules`,
        undefined,
        {
          rawBody: rules.join('\n'),
          contentType: 'text/plain',
          process: world.processes.length - 1,
        },
      )
      if (status !== 503) throw new Error(`a change that needs space was answered with ${status} ${text.slice(0, 200)}`)
    },
    async end() {
      await disks.postgres.free()
      // As systemd would: PostgreSQL ends when it cannot write its log.
      const isUp = await run('kill', ['-0', `${postgres.pid}`]).then(
        () => true,
        () => false,
      )
      if (!isUp) await startAgain(database)
    },
    ...ofDatabase,
    signs: /PostgreSQL (refuses changes|does not answer)/,
    alert: undefined,
  }
}

async function restartNode(world: World, signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
  await stop(world.edge.child, signal)
  world.edge = await world.startEdge({ like: world.edge, cutOff: true, env: world.edgeSettings })
}

function descriptors(world: World): Condition[] {
  const { node, nats, postgres, plane } = partsOf(world)
  let before = 0
  const without = ({ name, pid }: Part, rest: Expected): Condition => ({
    name: `no descriptors: ${name}`,
    begin: async () => {
      before = await descriptorLimit(pid())
      await limitDescriptors(pid(), fewDescriptors)
    },
    end: async () => void (await limitDescriptors(pid(), before)),
    ...rest,
  })
  return [
    without(node, { acceptsChanges: true, signs: /this machine +wrong|no answer/, alert: undefined }),
    // Those that are connected stay so. New ones are refused, and the program that needs one says so.
    without(nats, { acceptsChanges: true, signs: undefined, alert: undefined }),
    without(postgres, { acceptsChanges: true, signs: /postgresql\.connection failed/, alert: undefined }),
    without(plane, { ...ofPlane, signs: /not ready|no answer/, alert: undefined }),
  ]
}

function memory(world: World): Condition[] {
  const { node, nats, postgres, plane } = partsOf(world)
  const without = (part: Part, rest: Expected): Condition => ({
    name: `no memory: ${part.name}`,
    ...memoryLimit(part),
    ...rest,
  })
  return [
    without(node, ofNode),
    without(nats, { ...ofNats, signs: undefined, alert: undefined }),
    without(postgres, { ...ofDatabase, acceptsChanges: false, alert: undefined }),
    without(plane, ofPlane),
  ]
}

/** An hour. NATS is linked statically, and its clock cannot be moved here: those of all others are. */
function clocks(world: World): Condition[] {
  const off = /clock is (3599|3600|3601)(\.\d)? s/
  const far = { acceptsChanges: true, signs: off, alert: 'GatehouseClockOff' }
  const { nats, ...others } = partsOf(world)
  const each = Object.values(others).map((part) => ({ name: part.name, ...clockAhead(part) }))
  const inTurn = (moves: (() => Promise<void>)[]) => async () => {
    for (const move of moves) await move()
  }
  return [
    ...each.map(({ name, ...moves }) => ({ name: `clock an hour ahead: ${name}`, ...moves, ...far })),
    {
      name: `clock an hour behind: ${nats.name}`,
      begin: inTurn(each.map(({ begin }) => begin)),
      end: inTurn(each.map(({ end }) => end)),
      ...far,
      signs: /clock is (3599|3600|3601)(\.\d)? s ahead of that of NATS/,
    },
  ]
}

function ports(world: World): Condition[] {
  const { node, nats, postgres, plane } = partsOf(world)
  const taken = (part: Part, rest: Expected): Condition => ({
    name: `port taken: ${part.name}`,
    ...takenPort(part),
    ...rest,
  })
  return [
    taken(node, { ...ofNode, isNodeDown: true }),
    taken(nats, ofNats),
    taken(postgres, ofDatabase),
    taken(plane, ofPlane),
  ]
}

/** The control plane keeps nothing on a disk of its own. */
function readOnlyDisks(world: World): Condition[] {
  const { disks } = world
  const { nats, postgres } = partsOf(world)
  const nodeAfter = (what: string, signal: 'SIGKILL' | 'SIGTERM'): Condition => {
    const { begin, end } = readOnly(disks.node.folder)
    return {
      name: `read-only: node, restarted, ${what}`,
      begin: () => begin().then(() => restartNode(world, signal)),
      end,
      ...unwritable,
    }
  }
  const down = (part: Part, disk: Disk, rest: Expected): Condition => {
    const { begin, end } = readOnly(disk.folder)
    return {
      name: `read-only: ${part.name}, restarted`,
      async begin() {
        await part.kill()
        await begin()
        await part.start().catch(() => {})
      },
      async end() {
        await end()
        await part.kill()
        await startAgain(part)
      },
      ...rest,
    }
  }
  return [
    { name: 'read-only: node', ...readOnly(disks.node.folder), ...unwritable },
    nodeAfter('the agent alone', 'SIGKILL'),
    nodeAfter('with HAProxy', 'SIGTERM'),
    down(nats, disks.nats, { ...ofNats, more: () => natsFolder(disks.nats) }),
    down(postgres, disks.postgres, ofDatabase),
  ]
}
