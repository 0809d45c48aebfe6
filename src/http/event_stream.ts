import { Readable } from 'node:stream'
import type { Caller } from '../identity/caller.ts'
import { Crowded } from '../kernel/flow/gate.ts'

/** Starts a stream and returns the function that stops it. */
export type Events = (to: { emit: (event: string, data: object) => void; lost: (count: number) => void }) => () => void
export type StreamEnd = 'shutdown' | 'unauthorized' | 'unavailable'

const heartbeatMs = 10_000
/** Upper bound on how long a stream outlives its key, its session or a new IP restriction. */
const recheckMs = 2_000
const maxRecheckMs = 5_000
/**
 * Buffer for a slow reader. Events that do not fit are dropped, and the stream reports their number. A node reports up to a
 * hundred requests at a time, and reports of two nodes must fit.
 */
const bufferBytes = 512 * 1024
/** Disconnects clients that have read nothing for this long. */
const stuckMs = 60_000

export type EventStreams = {
  /** Rechecks `isAllowed` periodically. Throws if too many streams are open. */
  readonly open: (caller: Caller, events: Events, isAllowed: () => Promise<boolean>) => Readable
  readonly count: () => number
  /** Ends all streams, and refuses to open new ones. */
  readonly endAll: () => void
}

/** Server-sent events. Limited per account and process, because each stream holds a connection. */
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
  // Tells the client immediately that the stream is open.
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
