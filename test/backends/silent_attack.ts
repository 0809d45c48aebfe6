// Backends that never answer, and clients that keep asking for them, each in a process of its own.
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { type ClientHttp2Session, connect } from 'node:http2'
import { createServer } from 'node:net'
import { constants, setPriority } from 'node:os'
import { type Scope, stop } from '../harness/control_plane.ts'
import { pause } from '../harness/poll.ts'

/** Accepts every connection on all of 127.0.0.0/8, and says nothing. Resolves to its port. */
export async function startSilence(scope: Scope): Promise<number> {
  const child = fork(import.meta.filename, ['silence'])
  scope.after(() => stop(child, 'SIGKILL'))
  const [port] = (await once(child, 'message')) as [number]
  return port
}

export type Attack = { httpsPort: number; host: string; paths: number; sessions: number; perSecond: number }

/**
 * Requests for /0, /1 and so on at a fixed rate, over as many HTTP/2 connections from as many addresses, until it is
 * ended. At the lowest priority: what the attackers compute is not what the node pays for them.
 */
export function startAttack(scope: Scope, attack: Attack): { end: () => Promise<{ sent: number; inFlight: number }> } {
  const child: ChildProcess = fork(import.meta.filename, ['attack', JSON.stringify(attack)])
  scope.after(() => stop(child, 'SIGKILL'))
  return {
    async end() {
      const said = once(child, 'message')
      child.send('end')
      const [counts] = await said
      await stop(child, 'SIGKILL')
      return counts as { sent: number; inFlight: number }
    },
  }
}

function silence(): void {
  const server = createServer((socket) => socket.on('error', () => {}).resume())
  server.listen({ port: 0, host: '0.0.0.0', backlog: 4_096 }, () => {
    process.send?.((server.address() as { port: number }).port)
  })
}

async function attack({ httpsPort, host, paths, sessions: count, perSecond }: Attack): Promise<void> {
  setPriority(constants.priority.PRIORITY_LOW)
  const counts = { sent: 0, inFlight: 0 }
  process.once('message', () => process.send?.(counts))
  const open = (index: number): ClientHttp2Session => {
    const localAddress = `127.0.2.${(index % 250) + 1}`
    const named = { rejectUnauthorized: false, servername: host, ...{ localAddress } }
    const session = connect(`https://127.0.0.1:${httpsPort}`, named)
    return session.on('error', () => {})
  }
  const sessions = Array.from({ length: count }, (_, index) => open(index))
  const began = performance.now()
  for (;;) {
    while (counts.sent < ((performance.now() - began) / 1_000) * perSecond) {
      const number = counts.sent++
      const index = number % count
      if (sessions[index]?.destroyed || sessions[index]?.closed) sessions[index] = open(index)
      const stream = sessions[index]?.request({ ':path': `/${number % paths}`, ':authority': host })
      counts.inFlight++
      stream?.on('error', () => {}).on('close', () => counts.inFlight--)
      stream?.resume()
    }
    await pause(5)
  }
}

const [role, plan = ''] = process.argv[1] === import.meta.filename ? process.argv.slice(2) : []
if (role === 'silence') silence()
if (role === 'attack') await attack(JSON.parse(plan))
