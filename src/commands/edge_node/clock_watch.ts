import type { StreamAPI } from '@nats-io/jetstream'
import type { Channels } from '../../distribution/channels.ts'
import { clockOffset } from '../../kernel/clock.ts'

const everyMs = 60_000

/**
 * Measures the offset between this machine's clock and NATS's: rules expire by this clock, and the control plane drops
 * reports with a time in the future. Servers since 2.10 include the time in their replies. The offset is unknown with an
 * older server, and before the first reply.
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
      // Without a reply, the last measurement remains the best.
      const lookNow = () => void look(streams, records).catch(() => {})
      lookNow()
      const timer = setInterval(lookNow, everyMs).unref()
      signal.addEventListener('abort', () => clearInterval(timer))
    },
  }
}
