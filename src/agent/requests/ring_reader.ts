import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import { listenAt } from './listen.ts'

/** Maximum share of each window for lines, so that floods of requests leave time for enforcement. */
const window = { milliseconds: 100, forLines: 50 }

/** HAProxy closes its side once it notices that the agent has closed its own. */
const sentWithinMs = 1_000

export type LineReader = {
  /** Lines that HAProxy had no room for. */
  dropped: () => number
  /** Lines that could not be parsed. */
  unreadable: () => number
  close: () => Promise<void>
}

/** HAProxy's placeholder for lines that it had no room for. */
const dropNotice = /^(\d+) events? dropped\0?$/

/**
 * Reads the rings of HAProxy's workers, which connect to the agent and send `<length> <line>`, so that nothing in a line
 * can end it. `onLine` must be fast and must not throw.
 */
export async function readLines(
  path: string,
  maxLineBytes: number,
  onLine: (line: string) => boolean,
  onDrop: (count: number) => void = () => {},
): Promise<LineReader> {
  const sockets = new Set<Socket>()
  const spend = createBudget(sockets)
  let dropped = 0
  let unreadable = 0

  function take(line: string): void {
    const lost = Number(dropNotice.exec(line)?.[1] ?? 0)
    dropped += lost
    if (lost > 0) onDrop(lost)
    else if (!onLine(line)) unreadable++
  }

  const server = createServer((socket) => {
    const split = createSplitter(maxLineBytes, take)
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
    socket.on('data', (bytes) => spend(() => split(bytes) || socket.destroy()))
  })
  await listenAt(server, path)
  return {
    dropped: () => dropped,
    unreadable: () => unreadable,
    /** Reads what HAProxy has already sent. It keeps later lines for the next reader, and sends none twice. */
    async close() {
      server.close()
      const closed = once(server, 'close')
      for (const socket of sockets) socket.end()
      await Promise.race([closed, setTimeout(sentWithinMs, undefined, { ref: false })])
      for (const socket of sockets) socket.destroy()
      await closed
    },
  }
}

/**
 * Pauses all sockets for the rest of a window whose share is used up. HAProxy counts the lines that do not fit
 * meanwhile.
 */
function createBudget(sockets: ReadonlySet<Socket>) {
  let began = 0
  let used = 0
  return (work: () => void): void => {
    const start = performance.now()
    if (start - began >= window.milliseconds) {
      began = start
      used = 0
    }
    work()
    used += performance.now() - start
    if (used < window.forLines) return
    for (const socket of sockets) socket.pause()
    void setTimeout(Math.max(1, began + window.milliseconds - performance.now())).then(() => {
      for (const socket of sockets) socket.resume()
    })
  }
}

/** Returns false for malformed input, after which no line boundary can be trusted. */
export function createSplitter(maxLineBytes: number, onLine: (line: string) => void) {
  let rest = ''
  return (bytes: Buffer): boolean => {
    // latin1: one character per byte, because HAProxy's length is in bytes.
    const text = rest + bytes.toString('latin1')
    let from = 0
    for (;;) {
      const space = text.indexOf(' ', from)
      if (space < 0) break
      const digits = text.slice(from, space)
      const length = /^[1-9]\d{0,8}$/.test(digits) ? Number(digits) : 0
      if (length < 1 || length > maxLineBytes + 1) return false
      const end = space + 1 + length
      if (end > text.length) break
      onLine(text.slice(space + 1, end))
      from = end
    }
    rest = text.slice(from)
    return rest.length <= maxLineBytes + 16
  }
}
