import { once } from 'node:events'
import { chmod, rm } from 'node:fs/promises'
import type { Server } from 'node:net'

const retryMs = 5_000

/**
 * Listens where HAProxy connects to. On a read-only file system there can be no new socket: an agent that finds HAProxy
 * running there has to do without what it would tell, until it can listen.
 */
export async function listenAt(server: Server, path: string): Promise<void> {
  let retry: NodeJS.Timeout | undefined
  async function listen(): Promise<void> {
    // What a killed agent has left behind.
    await rm(path, { force: true })
    server.listen(path)
    await once(server, 'listening')
    await chmod(path, 0o600)
  }
  const whenReadOnly = ({ code }: NodeJS.ErrnoException): boolean => {
    if (code === 'EROFS') retry = setTimeout(() => void listen().catch(whenReadOnly), retryMs).unref()
    return code === 'EROFS'
  }
  server.once('close', () => clearTimeout(retry))
  await listen().catch((error) => {
    if (!whenReadOnly(error)) throw error
  })
}
