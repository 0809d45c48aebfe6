import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import type { Scope } from '../harness/control_plane.ts'

export type Counts = { statements: number; round_trips: number }

/**
 * Stands between a process and PostgreSQL and counts what the process sends: each Execute and each simple Query is a statement,
 * and each Sync and simple Query is a round trip, because the process waits for its answer.
 */
export async function startCounter(scope: Scope, targetUrl: string): Promise<{ url: string; counts: () => Counts }> {
  const target = new URL(targetUrl)
  const counted = { E: 0, Q: 0, S: 0 }
  const server = createServer((client) => {
    const upstream = connect(Number(target.port), target.hostname)
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      from.setNoDelay(true)
      from.on('error', () => {})
      from.on('close', () => to.destroy())
      from.on('data', (chunk) => void to.write(chunk))
    }
    client.on(
      'data',
      messageReader((kind) => kind in counted && counted[kind as keyof typeof counted]++),
    )
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  scope.after(async () => void server.close())
  const url = new URL(targetUrl)
  url.port = String((server.address() as { port: number }).port)
  return {
    url: url.href,
    counts: () => ({ statements: counted.E + counted.Q, round_trips: counted.S + counted.Q }),
  }
}

/** Calls back with the letter of each message of a client. The first one, of the startup, has none. */
export function messageReader(onMessage: (kind: string) => void): (chunk: Buffer) => void {
  let rest: Buffer = Buffer.alloc(0)
  let hasStarted = false
  return (chunk) => {
    rest = rest.length ? Buffer.concat([rest, chunk]) : chunk
    for (;;) {
      const head = hasStarted ? 1 : 0
      if (rest.length < head + 4) return
      const length = head + rest.readInt32BE(head)
      if (rest.length < length) return
      if (hasStarted) onMessage(String.fromCharCode(rest[0] as number))
      hasStarted = true
      rest = rest.subarray(length)
    }
  }
}
