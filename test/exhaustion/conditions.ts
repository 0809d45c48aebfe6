import { checkWritableFolder } from '../../src/doctor/folders.ts'
import { stop } from '../harness/control_plane.ts'
import type { Condition } from './examine.ts'
import { type Disk, run, type World } from './world.ts'

/** The soft limit. What is open stays open; nothing more can be opened. */
async function limitDescriptors(pid: number | undefined, limit: number): Promise<void> {
  await run('prlimit', ['--pid', `${pid}`, `--nofile=${limit}:`])
}
const descriptorLimit = async (pid: number | undefined): Promise<number> =>
  Number((await run('prlimit', ['--pid', `${pid}`, '--nofile', '--output=SOFT', '--noheadings'])).stdout)
/** Fewer than any of them has open: not even one that is closed can be replaced. */
const fewDescriptors = 3

/** As doctor does for the unit of NATS. */
async function natsFolder({ folder }: Disk): Promise<Record<string, string>> {
  const [found] = await checkWritableFolder({ check: 'nats.folder', setting: 'store_dir', path: folder })
  return { 'doctor there': `${found?.check} ${found?.status}: ${found?.message}` }
}

export function conditions(world: World): Condition[] {
  const { disks, postgres, nats, processes } = world
  const fullDisk = (
    part: string,
    disk: Disk,
    rest: Pick<Condition, 'acceptsChanges' | 'signs' | 'more'>,
    healed = async () => {},
  ): Condition => ({ name: `full disk: ${part}`, begin: disk.fill, end: () => disk.free().then(healed), ...rest })
  const restartedOnFullDisk = (what: string, signal: 'SIGKILL' | 'SIGTERM'): Condition => ({
    name: `full disk: node, restarted, ${what}`,
    async begin() {
      await disks.node.fill()
      await stop(world.edge.child, signal)
      world.edge = await world.startEdge({ like: world.edge, cutOff: true })
    },
    end: disks.node.free,
    acceptsChanges: true,
    signs: /cannot (be )?writ/,
  })
  let before = 0
  const withoutDescriptors = (
    part: string,
    pid: () => number | undefined,
    rest: Pick<Condition, 'acceptsChanges' | 'signs' | 'more'>,
  ): Condition => ({
    name: `no descriptors: ${part}`,
    begin: async () => {
      before = await descriptorLimit(pid())
      await limitDescriptors(pid(), fewDescriptors)
    },
    end: () => limitDescriptors(pid(), before),
    ...rest,
  })
  const servePid = () => processes.at(-1)?.child.pid
  return [
    fullDisk('node', disks.node, { acceptsChanges: true, signs: /cannot (be )?writ/ }),
    restartedOnFullDisk('the agent alone', 'SIGKILL'),
    restartedOnFullDisk('with HAProxy', 'SIGTERM'),
    // It goes on without its disk, and tells clients nothing. Only doctor on its machine sees it.
    fullDisk('NATS', disks.nats, {
      acceptsChanges: true,
      signs: /nats\.folder failed/,
      more: () => natsFolder(disks.nats),
    }),
    fullDisk('PostgreSQL', disks.postgres, { acceptsChanges: false, signs: /PostgreSQL|database/i }, async () => {
      // As systemd would: PostgreSQL ends when it cannot write its log.
      const isUp = await run('kill', ['-0', `${postgres.pid}`]).then(
        () => true,
        () => false,
      )
      if (!isUp) await postgres.restart()
    }),
    withoutDescriptors('node', () => world.edge.child.pid, {
      acceptsChanges: true,
      signs: /this machine +wrong|storage_failing|scrape fails/,
    }),
    // Those that are connected stay so. New ones are refused, and whoever needs one says so.
    withoutDescriptors('NATS', () => nats.pid, { acceptsChanges: true, signs: undefined }),
    withoutDescriptors('control plane', servePid, { acceptsChanges: false, signs: /not ready|no answer|scrape fails/ }),
  ]
}
