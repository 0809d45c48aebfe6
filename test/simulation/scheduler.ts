import type { Log } from '../../src/kernel/log.ts'
import type { Stop, Timing } from '../../src/kernel/timing.ts'
import type { Chance } from './chance.ts'

/** One running program. A crash ends everything that it waits for; a pause delays it. */
export type Process = {
  readonly name: string
  isAlive: boolean
  /** Nothing of it happens before this moment. */
  pausedUntil: number
  /** How far its clock is off. */
  skewMs: number
  /** Called when it crashes, for each of its connections. */
  readonly atEnd: (() => void)[]
  /** Aborted when the history is over: Node keeps a signal made of others for as long as someone listens to it. */
  readonly ending: AbortController
}

type Event = { at: number; order: number; process: Process | undefined; isQuiet: boolean; work: () => void }

/** A long time after 1970, so that nothing depends on small numbers. */
const beginning = 1_800_000_000_000

/**
 * Simulated time. Everything that a part waits for is an event here, and one event happens after another: after each,
 * the real code runs until it waits again. Nothing else makes it go on, so the seed decides every interleaving.
 */
export function createScheduler(chance: Chance, isTraced: boolean) {
  const queue = createHeap()
  const story: string[] = []
  const processes: Process[] = []
  let elapsed = 0
  let order = 0

  function tell(who: string, what: string): void {
    if (isTraced) story.push(`${(elapsed / 1_000).toFixed(3).padStart(9)} s  ${who.padEnd(12)} ${what}`)
  }

  function at(delayMs: number, process: Process | undefined, work: () => void, isQuiet = false): Event {
    const event = { at: elapsed + Math.max(0, delayMs), order: order++, process, isQuiet, work }
    queue.push(event)
    return event
  }

  /** The earliest event that may happen. False when there is none left before `until`. */
  async function step(until: number): Promise<boolean> {
    for (;;) {
      const event = queue.peek()
      if (!event || event.at > until) {
        elapsed = Math.max(elapsed, until)
        return false
      }
      queue.pop()
      const { process } = event
      if (process && !process.isAlive) continue
      if (process && process.pausedUntil > event.at) {
        queue.push({ ...event, at: process.pausedUntil, order: order++ })
        continue
      }
      elapsed = event.at
      event.work()
      // Changes of the models alone wake no process.
      if (event.isQuiet) continue
      await settle()
      return true
    }
  }

  function start(name: string): Process {
    const process: Process = {
      name,
      isAlive: true,
      pausedUntil: 0,
      skewMs: 0,
      atEnd: [],
      ending: new AbortController(),
    }
    processes.push(process)
    return process
  }

  /** The history is over. What the processes still wait for is let go, so that a long search keeps its memory. */
  function end(): void {
    for (const { ending } of processes) ending.abort()
  }

  function crash(process: Process, why: string): void {
    if (!process.isAlive) return
    tell(process.name, why)
    process.isAlive = false
    for (const end of process.atEnd.splice(0)) end()
  }

  const timingOf = (process: Process): Timing => ({
    now: () => beginning + Math.round(elapsed) + process.skewMs,
    elapsed: () => elapsed,
    random: chance.next,
    after(ms, work) {
      let isOver = false
      at(ms, process, () => isOver || work())
      return () => {
        isOver = true
      }
    },
    every(ms, work): Stop {
      let isOver = false
      const next = () => {
        if (isOver) return
        at(ms, process, next)
        work()
      }
      at(ms, process, next)
      return () => {
        isOver = true
      }
    },
  })

  /** Something that takes time, and that the process waits for. */
  function takes<Result>(process: Process, ms: number, work: () => Result): Promise<Result> {
    return new Promise((resolve, reject) => {
      at(ms, process, () => {
        try {
          resolve(work())
        } catch (error) {
          reject(error)
        }
      })
    })
  }

  /** What the real parts log is what they believed. */
  const logOf = (process: Process): Log => {
    const say = (fields: object, message: string) => tell(process.name, `says: ${message}${factsOf(fields)}`)
    return isTraced ? { info: say, warn: say, error: say } : silent
  }

  return {
    chance,
    now: () => elapsed,
    epoch: () => beginning + Math.round(elapsed),
    tell,
    story,
    at,
    step,
    start,
    crash,
    end,
    timingOf,
    takes,
    logOf,
    isTraced,
  }
}
export type Scheduler = ReturnType<typeof createScheduler>

const silent: Log = { info() {}, warn() {}, error() {} }

function factsOf(fields: object): string {
  const facts = Object.entries(fields).map(
    ([name, value]) => `${name} ${value instanceof Error ? messagesOf(value) : JSON.stringify(value)}`,
  )
  return facts.length > 0 ? ` (${facts.join(', ').slice(0, 300)})` : ''
}
const messagesOf = (error: Error): string =>
  error.cause instanceof Error ? `${error.message}: ${messagesOf(error.cause)}` : error.message

/**
 * Until the real code waits for an event: only then is everything done that it can do by itself. Node drains all promises
 * before the next tick. A turn of the event loop would take three times as long, and the simulated parts do not wait for one.
 */
const settle = (): Promise<void> => new Promise((resolve) => process.nextTick(resolve))

/** By time, then by the order of their making. */
function createHeap() {
  const heap: Event[] = []
  const isBefore = (a: Event, b: Event) => a.at < b.at || (a.at === b.at && a.order < b.order)
  function swap(i: number, j: number): void {
    const kept = heap[i] as Event
    heap[i] = heap[j] as Event
    heap[j] = kept
  }
  return {
    peek: (): Event | undefined => heap[0],
    push(event: Event): void {
      heap.push(event)
      for (let i = heap.length - 1; i > 0; ) {
        const parent = (i - 1) >> 1
        if (!isBefore(heap[i] as Event, heap[parent] as Event)) break
        swap(i, parent)
        i = parent
      }
    },
    pop(): void {
      const last = heap.pop()
      if (!last || heap.length === 0) return
      heap[0] = last
      for (let i = 0; ; ) {
        const [left, right] = [2 * i + 1, 2 * i + 2]
        let first = i
        if (left < heap.length && isBefore(heap[left] as Event, heap[first] as Event)) first = left
        if (right < heap.length && isBefore(heap[right] as Event, heap[first] as Event)) first = right
        if (first === i) return
        swap(i, first)
        i = first
      }
    },
  }
}
