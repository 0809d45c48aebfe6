import type { StreamAPI } from '@nats-io/jetstream'
import type { Channels } from '../../distribution/channels.ts'
import { clockOffset } from '../../kernel/clock.ts'

const everyMs = 60_000

/**
 * How far this machine's clock is from that of NATS: rules expire by this clock, and what a node reports with a time from the
 * future is dropped. Servers since 2.10 say when they answered; with an older one, and before the first answer, it is unknown.
 */
export function createClockWatch() {
  let offset: number | undefined
  async function look(streams: () => Promise<Pick<StreamAPI, 'info'>>, bucket: string): Promise<void> {
    const api = await streams()
    const asked = Date.now()
    const { ts } = (await api.info(`KV_${bucket}`)) as { ts?: string }
    if (ts) offset = clockOffset(asked, Date.parse(ts), Date.now())
  }
  return {
    offset: (): number | undefined => offset,
    follow(streams: () => Promise<Pick<StreamAPI, 'info'>>, { records }: Channels, signal: AbortSignal): void {
      // Without an answer, what was measured last stays the best that is known.
      const lookNow = () => void look(streams, records).catch(() => {})
      lookNow()
      const timer = setInterval(lookNow, everyMs).unref()
      signal.addEventListener('abort', () => clearInterval(timer))
    },
  }
}
