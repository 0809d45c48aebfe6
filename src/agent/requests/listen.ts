import { once } from 'node:events'
import { chmod, rm } from 'node:fs/promises'
import type { Server } from 'node:net'

const retryMs = 5_000

/**
 * Listens on a socket that HAProxy connects to. A read-only file system allows no new socket: an agent that finds
 * HAProxy running there works without its lines, and retries.
 */
export async function listenAt(server: Server, path: string): Promise<void> {
  let retry: NodeJS.Timeout | undefined
  async function listen(): Promise<void> {
    // A killed agent may have left its socket.
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
