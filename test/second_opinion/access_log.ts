import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import type { Scope } from '../harness/control_plane.ts'

export type Line = Record<string, string | number>

/** A receiver of `syslog+tcp://`: the access log as it is written, without a file. */
export async function receiveAccessLog(scope: Scope): Promise<{ url: string; lines: Line[] }> {
  const lines: Line[] = []
  const open = new Set<Socket>()
  const server = createServer((socket) => {
    let waiting = Buffer.alloc(0)
    open.add(socket)
    socket.on('error', () => {})
    socket.on('data', (bytes) => {
      waiting = Buffer.concat([waiting, bytes])
      // RFC 6587: the length of each message, a space, and the message.
      for (let space = waiting.indexOf(' '); space > 0; space = waiting.indexOf(' ')) {
        const end = space + 1 + Number(waiting.subarray(0, space))
        if (waiting.length < end) break
        const message = waiting.subarray(space + 1, end).toString()
        lines.push(JSON.parse(message.slice(message.indexOf('{'))))
        waiting = waiting.subarray(end)
      }
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  scope.after(async () => {
    for (const socket of open) socket.destroy()
    server.close()
  })
  return { url: `syslog+tcp://127.0.0.1:${(server.address() as AddressInfo).port}`, lines }
}
