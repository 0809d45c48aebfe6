import { execFile } from 'node:child_process'
import { stat, statfs } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { answerTimeoutMs, type Finding, failed, ok, warning } from './finding.ts'
import type { Account } from './services.ts'

const megabyte = 2 ** 20
/** A node occasionally rewrites its whole state, with HAProxy's configuration beside it. */
const room = { bytes: { failed: 64 * megabyte, warning: 512 * megabyte }, inodes: { failed: 100, warning: 1_000 } }

type Folder = { check: string; setting: string; path: string; account?: Account | undefined }

/** Writes to the folder as the service would, and measures the remaining space. */
export async function checkWritableFolder({ check, setting, path, account }: Folder): Promise<Finding[]> {
  const exists = await stat(path).catch(() => undefined)
  const target = exists ? path : dirname(path)
  const fault = await writeFault(target, account)
  if (fault)
    return [failed(check, `${setting} is ${path}, which cannot be written to: ${fault}`, hintOf(fault, account))]
  const scarce = await scarcity(target)
  const free = `${path} can be written to, and has ${scarce.free} free`
  if (scarce.status === 'failed') return [failed(check, `${path} has only ${scarce.free} free`, makeRoom)]
  if (scarce.status === 'warning') return [warning(check, `${path} has only ${scarce.free} free`, makeRoom)]
  return [ok(check, exists ? free : `${path} will be made at the first start`)]
}

const makeRoom = 'Delete what is not needed on this file system, or enlarge it'

const hintOf = (fault: string, account: Account | undefined): string =>
  /space|quota/i.test(fault)
    ? makeRoom
    : /read-only/i.test(fault)
      ? 'Mount the file system for writing'
      : `Give it to the user that runs the service: chown ${account?.name ?? ''}`.trimEnd()

/** The system's error when a file is written, synced and removed; undefined if all of it works. */
async function writeFault(folder: string, account: Account | undefined): Promise<string | undefined> {
  const file = join(folder, `.gatehouse-doctor-${process.pid}`)
  const script = 'dd if=/dev/zero of="$0" bs=64k count=1 conv=fsync 2>&1; code=$?; rm -f "$0"; exit $code'
  const mayChange = account && process.getuid?.() === 0
  const as = mayChange ? { uid: account.uid, gid: account.gid } : {}
  try {
    await promisify(execFile)('/bin/sh', ['-c', script, file], {
      cwd: '/',
      timeout: answerTimeoutMs,
      env: { PATH: '/usr/bin:/bin', LC_ALL: 'C' },
      ...as,
    })
    return undefined
  } catch (error) {
    const { stdout = '', message } = error as { stdout?: string; message: string }
    return (
      stdout
        .split('\n')
        .find((line) => line.startsWith('dd: '))
        ?.replace(/^.*: /, '') ?? message
    )
  }
}

async function scarcity(folder: string): Promise<{ status: Finding['status']; free: string }> {
  const { bavail, bsize, files, ffree } = await statfs(folder)
  const bytes = bavail * bsize
  // Some file systems have no fixed number of inodes, and report 0.
  const inodes = files > 0 ? ffree : Number.POSITIVE_INFINITY
  const isBelow = (limit: 'failed' | 'warning') => bytes < room.bytes[limit] || inodes < room.inodes[limit]
  const status = isBelow('failed') ? 'failed' : isBelow('warning') ? 'warning' : 'ok'
  const counted = Number.isFinite(inodes) ? ` and ${inodes} inodes` : ''
  return { status, free: `${Math.floor(bytes / megabyte)} MB${counted}` }
}
