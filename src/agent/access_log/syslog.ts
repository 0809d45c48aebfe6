import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { connect, isIP, type Socket } from 'node:net'
import type { Sink } from './destination.ts'

const timeoutMs = 5_000
/** Facility local0, severity informational. */
const priority = 16 * 8 + 6
/** RFC 5426 recommends that receivers accept at least this much, and most do. */
const maxDatagramBytes = 8_192

/** RFC 5424 with the line as its message. The line is JSON, so it contains no control characters. */
function syslogMessage(line: string, node: string): Buffer {
  const at = /"timestamp":"([^"]+)"/.exec(line)?.[1] ?? '-'
  return Buffer.from(`<${priority}>1 ${at} ${node} gatehouse-edge - access - ${line}`)
}

/** RFC 5426. UDP does not acknowledge datagrams. */
export function syslogOverUdp(host: string, port: number, node: string): Sink {
  const socket = createSocket(isIP(host) === 6 ? 'udp6' : 'udp4')
  socket.on('error', () => {})
  socket.unref()
  const send = (bytes: Buffer) =>
    new Promise<void>((resolve, reject) =>
      socket.send(bytes, port, host, (error) => (error ? reject(error) : resolve())),
    )
  return {
    name: 'syslog',
    batch: 50,
    async write(lines) {
      for (const line of lines) await send(syslogMessage(line, node).subarray(0, maxDatagramBytes))
    },
    async close() {
      socket.close()
    },
  }
}

/**
 * RFC 6587 with octet counting: each message follows its length. Messages in flight are sent again after the connection
 * breaks.
 */
export function syslogOverTcp(host: string, port: number, node: string): Sink {
  let socket: Socket | undefined

  async function connected(): Promise<Socket> {
    if (socket && !socket.destroyed) return socket
    const opened = connect({ host, port })
    opened.on('error', () => {})
    socket = opened
    await once(opened, 'connect', { signal: AbortSignal.timeout(timeoutMs) })
    return opened
  }
  return {
    name: 'syslog',
    batch: 200,
    async write(lines) {
      const frames = lines.flatMap((line) => {
        const message = syslogMessage(line, node)
        return [Buffer.from(`${message.length} `), message]
      })
      try {
        const to = await connected()
        await new Promise<void>((resolve, reject) => {
          const failed = () => reject(new Error('the syslog server closed the connection'))
          to.once('close', failed)
          to.write(Buffer.concat(frames), (error) => {
            to.off('close', failed)
            error ? reject(error) : resolve()
          })
        })
      } catch (error) {
        socket?.destroy()
        socket = undefined
        throw error
      }
    },
    async close() {
      socket?.end()
      socket?.unref()
    },
  }
}
