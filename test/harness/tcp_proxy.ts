import { connect, createServer, type Socket } from 'node:net'
import type { Scope } from './control_plane.ts'

export type TcpProxy = {
  /** The URL of the other side, through the proxy. */
  url: string
  /** Every connection breaks and no new one is taken, as when the other side is down. */
  cut: () => Promise<void>
  /** Connections stay, but nothing gets through, as when a cable is pulled. */
  silence: () => void
  /**
   * Passes on what a client sends up to and including this text, but not the answer to it: the connection breaks. It is the
   * first that sends the text after `first`, because others may send the same at any time.
   */
  breakAfter: (first: string, text: string) => void
  /** The connection that has brought clients so many more bytes breaks, even in the middle of a message. */
  breakAfterBytes: (bytes: number) => void
  heal: () => Promise<void>
  /** How many bytes clients were sent through it. */
  sent: () => number
}

/** A stretch of network, to the database say, that can be disturbed and measured. */
export async function startTcpProxy(scope: Scope, targetUrl: string): Promise<TcpProxy> {
  const target = new URL(targetUrl)
  const open = new Set<Socket>()
  let silent = false
  let sent = 0
  let breaking: { first: string; text: string } | undefined
  let breakingAt = Number.POSITIVE_INFINITY
  const server = createServer((client) => {
    const upstream = connect(Number(target.port), target.hostname)
    let broken = false
    let hasSentFirst = false
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      open.add(from)
      from.on('error', () => {})
      from.on('close', () => {
        open.delete(from)
        to.destroy()
      })
      from.on('data', (chunk) => {
        if (silent || broken) return
        to.write(chunk)
        if (to === client) sent += chunk.length
        if (sent > breakingAt) {
          breakingAt = Number.POSITIVE_INFINITY
          client.destroy()
        }
        if (from !== client || !breaking) return
        hasSentFirst ||= chunk.includes(breaking.first)
        if (!hasSentFirst || !chunk.includes(breaking.text)) return
        broken = true
        breaking = undefined
        // PostgreSQL gets the time to act on it.
        setTimeout(() => client.destroy(), 200)
      })
    }
  })
  const listen = (port: number) => new Promise<void>((resolve) => server.listen(port, '127.0.0.1', () => resolve()))
  const close = async () => {
    if (!server.listening) return
    const closed = new Promise((resolve) => server.close(resolve))
    for (const socket of open) socket.destroy()
    await closed
  }
  await listen(0)
  const { port } = server.address() as { port: number }
  scope.after(close)
  const url = new URL(targetUrl)
  url.port = String(port)
  return {
    url: url.href,
    cut: close,
    silence: () => {
      silent = true
    },
    breakAfter: (first, text) => {
      breaking = { first, text }
    },
    breakAfterBytes: (bytes) => {
      breakingAt = sent + bytes
    },
    async heal() {
      silent = false
      if (!server.listening) await listen(port)
    },
    sent: () => sent,
  }
}
