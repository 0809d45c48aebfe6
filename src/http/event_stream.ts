import { Readable } from 'node:stream'
import type { Caller } from '../identity/caller.ts'
import { Crowded } from '../kernel/flow/gate.ts'

/** How a stream of events begins. It returns how it ends. */
export type Events = (to: { emit: (event: string, data: object) => void; lost: (count: number) => void }) => () => void
export type StreamEnd = 'shutdown' | 'unauthorized' | 'unavailable'

const heartbeatMs = 10_000
/** How soon a stream ends when its key, its session or an IP restriction says so. */
const recheckMs = 2_000
const maxRecheckMs = 5_000
/**
 * What waits for a slow reader. What comes while it is full is lost, and the reader sees how much. A node tells of up to a
 * hundred requests at once: those of two nodes must find room.
 */
const bufferBytes = 512 * 1024
/** A client that has read nothing for this long is disconnected. */
const stuckMs = 60_000

export type EventStreams = {
  /** `isAllowed` is asked again and again. Throws when there are too many streams. */
  readonly open: (caller: Caller, events: Events, isAllowed: () => Promise<boolean>) => Readable
  readonly count: () => number
  /** Ends all of them, and from then on each new one at once. */
  readonly endAll: () => void
}

/** Streams of server-sent events, few for each account and process, because each holds a connection. */
export function createEventStreams(limits: { total: number; perAccount: number }): EventStreams {
  const open = new Map<Readable, { accountId: string; end: (reason: StreamEnd) => void }>()
  let ending = false
  return {
    open(caller, events, isAllowed) {
      const own = [...open.values()].filter(({ accountId }) => accountId === caller.accountId)
      if (own.length >= limits.perAccount) throw new Crowded('owner')
      if (open.size >= limits.total) throw new Crowded('total')
      const { stream, end } = openStream(events, isAllowed)
      open.set(stream, { accountId: caller.accountId, end })
      stream.once('close', () => open.delete(stream))
      if (ending) end('shutdown')
      return stream
    },
    count: () => open.size,
    endAll() {
      ending = true
      for (const { end } of open.values()) end('shutdown')
    },
  }
}

function openStream(events: Events, isAllowed: () => Promise<boolean>) {
  let released = false
  let hasRoom = true
  let lost = 0
  let lastRead = Date.now()
  const stream = new Readable({
    highWaterMark: bufferBytes,
    read() {
      lastRead = Date.now()
      hasRoom = true
      tellLost()
    },
  })
  const push = (text: string) => {
    hasRoom = stream.push(text)
  }
  const write = (event: string, data: object) => push(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`)
  function tellLost(): void {
    if (lost === 0 || stream.destroyed || stream.readableEnded) return
    const count = lost
    lost = 0
    write('dropped', { count })
  }
  const stop = events({
    emit(event, data) {
      if (!hasRoom) lost++
      else write(event, data)
    },
    lost(count) {
      lost += count
      if (hasRoom) tellLost()
    },
  })
  function end(reason: StreamEnd): void {
    if (released) return
    release()
    tellLost()
    write('end', { reason })
    stream.push(null)
  }
  const timers = [
    setInterval(() => {
      if (hasRoom) push(': heartbeat\n\n')
      else if (Date.now() - lastRead > stuckMs) stream.destroy()
    }, heartbeatMs),
    recheckEvery(isAllowed, end),
  ]
  function release(): void {
    if (released) return
    released = true
    for (const timer of timers) clearInterval(timer)
    stop()
  }
  stream.once('close', release)
  // So that the reader sees at once that it is open.
  push(': open\n\n')
  return { stream, end }
}

/** Fails closed: without the database we cannot rule out that the key was revoked. */
function recheckEvery(isAllowed: () => Promise<boolean>, end: (reason: StreamEnd) => void): NodeJS.Timeout {
  let askedAt: number | undefined
  return setInterval(async () => {
    if (askedAt !== undefined) {
      if (Date.now() - askedAt > maxRecheckMs) end('unavailable')
      return
    }
    askedAt = Date.now()
    const answer = await isAllowed().catch((): StreamEnd => 'unavailable')
    askedAt = undefined
    if (answer !== true) end(answer === false ? 'unauthorized' : answer)
  }, recheckMs)
}
