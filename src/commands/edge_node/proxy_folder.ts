import { constants } from 'node:fs'
import { access, lstat, mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { ask } from '../../agent/haproxy/process/runtime.ts'
import type { EdgeConfig } from '../../config/config.ts'
import type { Log } from '../../kernel/log.ts'
import { masterSocketIn, usualProxyFolder } from './settings.ts'

type Folders = Pick<EdgeConfig, 'GATEHOUSE_EDGE_FOLDER' | 'GATEHOUSE_EDGE_RUNTIME_FOLDER' | 'GATEHOUSE_EDGE_NODE'>

/**
 * Chooses the folder for HAProxy's files and sockets. HAProxy cannot start in a read-only folder, so it then gets a
 * temporary one: everything in it can be rebuilt from the records. A running HAProxy keeps its folder.
 */
export async function proxyFolder(config: Folders, log: Pick<Log, 'warn'>): Promise<string> {
  const usual = usualProxyFolder(config)
  const temporary = temporaryFolder(config)
  const isStuck = await isReadOnly(usual)
  if (isStuck)
    log.warn(
      { folder: config.GATEHOUSE_EDGE_FOLDER },
      'the folder of this node is on a read-only file system: serving its last state, and applying no changes until it can be written to',
    )
  if (await isInUse(temporary)) return temporary
  if (!isStuck || (await isInUse(usual))) return usual
  await makeTemporary(config.GATEHOUSE_EDGE_RUNTIME_FOLDER, temporary)
  return temporary
}

const temporaryFolder = (config: Folders): string =>
  join(config.GATEHOUSE_EDGE_RUNTIME_FOLDER, config.GATEHOUSE_EDGE_NODE)

/** The folder of the running HAProxy, or the one that the next would use. */
export const runningProxyFolder = async (config: Folders): Promise<string> =>
  (await isInUse(temporaryFolder(config))) ? temporaryFolder(config) : usualProxyFolder(config)

/** HAProxy can restart only in the temporary folder, which an agent chooses when it starts. */
export async function leaveReadOnlyFolder(folder: string, log: Pick<Log, 'error'>): Promise<void> {
  if (!(await isReadOnly(folder))) return
  log.error(
    { folder },
    'HAProxy cannot start in a read-only folder: ending, so that the next agent starts it elsewhere',
  )
  process.kill(process.pid, 'SIGHUP')
}

const isInUse = (folder: string): Promise<boolean> =>
  ask(masterSocketIn(folder), 'show proc').then(
    () => true,
    () => false,
  )

const isReadOnly = (folder: string): Promise<boolean> =>
  access(folder, constants.W_OK).then(
    () => false,
    ({ code }: NodeJS.ErrnoException) => code === 'EROFS',
  )

/** The folder will hold private keys, and others may have created the parent folder under its name: it must be ours. */
async function makeTemporary(around: string, folder: string): Promise<void> {
  try {
    await mkdir(around, { recursive: true, mode: 0o700 })
    const { uid, mode } = await lstat(around)
    if (uid !== process.getuid?.() || (mode & 0o022) !== 0) throw new Error('others may write to it')
    await rm(folder, { recursive: true, force: true })
    await mkdir(folder, { mode: 0o700 })
  } catch (cause) {
    throw new Error(
      `GATEHOUSE_EDGE_FOLDER is read-only, and GATEHOUSE_EDGE_RUNTIME_FOLDER is ${around}, which cannot be used instead: ${(cause as Error).message}`,
      { cause },
    )
  }
}
