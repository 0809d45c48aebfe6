import { setTimeout } from 'node:timers/promises'
import type { Log } from '../../kernel/log.ts'
import { createLineBuffer } from './buffer.ts'
import { createDropNotice } from './drop_notice.ts'

/** `write` rejects if the lines could not be delivered. The caller then retries with the same lines. */
export type Sink = {
  readonly name: string
  /** Maximum lines per write. */
  readonly batch: number
  write: (lines: readonly string[]) => Promise<void>
  close: () => Promise<void>
}
/** A retry would not help, for example because the receiver rejects the lines. */
export class Undeliverable extends Error {}

const maxWaiting = 20_000
const retryMs = { first: 250, most: 10_000 }
const lastWordsMs = 3_000

/** Writes lines in batches, one at a time. Adding a line never blocks: lines beyond the limit are dropped. */
export function createDestination(sink: Sink, log: Log) {
  const buffer = createLineBuffer(maxWaiting)
  const notice = createDropNotice(log, 'access log lines', { destination: sink.name })
  const stopping = new AbortController()
  let running: Promise<void> | undefined
  let written = 0
  let isFailing = false

  async function deliver(lines: readonly string[]): Promise<void> {
    for (let wait = retryMs.first; ; wait = Math.min(2 * wait, retryMs.most)) {
      try {
        await sink.write(lines)
        written += lines.length
        if (isFailing) log.info({ destination: sink.name }, 'the access log is written again')
        isFailing = false
        return
      } catch (error) {
        if (!isFailing) log.error({ err: error, destination: sink.name }, 'cannot write the access log; retrying')
        isFailing = true
        if (error instanceof Undeliverable || stopping.signal.aborted) {
          buffer.lost(lines.length)
          return notice.note(lines.length)
        }
        await setTimeout(wait, undefined, { signal: stopping.signal }).catch(() => {})
      }
    }
  }
  async function run(): Promise<void> {
    while (buffer.size() > 0) await deliver(buffer.take(sink.batch))
  }
  function soon(): void {
    running ??= setTimeout(10)
      .then(run)
      .finally(() => {
        running = undefined
        if (buffer.size() > 0) soon()
      })
  }

  return {
    name: sink.name,
    add(account: string, line: string): void {
      if (!buffer.add(account, line)) notice.note(1)
      soon()
    },
    counts: () => ({ written, dropped: buffer.dropped() }),
    /** Flushes the buffer for at most `lastWordsMs`. */
    async close(): Promise<void> {
      const late = setTimeout(lastWordsMs, undefined, { signal: stopping.signal }).then(
        () => stopping.abort(),
        () => {},
      )
      while (buffer.size() > 0 || running) {
        await Promise.race([running, late])
        if (stopping.signal.aborted) break
      }
      stopping.abort()
      notice.stop()
      await sink.close()
    },
  }
}
export type Destination = ReturnType<typeof createDestination>
