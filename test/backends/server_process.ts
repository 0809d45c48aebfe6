// An upstream in a process of its own that can be killed and started again, and that writes down what it executes.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, writeFileSync } from 'node:fs'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from '../../dev/ports.ts'
import { type Scope, stop } from '../harness/control_plane.ts'
import { pause } from '../harness/poll.ts'

export type ServerProcess = {
  readonly name: string
  readonly port: number
  /** As a crash does: what it has not answered stays unanswered. */
  kill: () => Promise<void>
  /** As a deployment does: it finishes what it has begun, and accepts nothing else. */
  finish: () => Promise<void>
  /** Neither answers nor refuses any more, until it is killed. */
  freeze: () => void
  /** Resolves when it listens again, on the same port. */
  start: () => Promise<void>
  /** One for each execution, including those before it was killed: `POST load-17`. */
  executions: () => Promise<string[]>
}

/** Answers each request with its name after up to `slowMs`, and all of /health at once. */
export async function startServer(scope: Scope, name: string, { slowMs = 20 } = {}): Promise<ServerProcess> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-server-'))
  const ledger = join(folder, 'ledger')
  writeFileSync(ledger, '')
  const port = await freePort()
  let child: ChildProcess | undefined
  const start = async () => {
    const args = [import.meta.filename, String(port), name, ledger, String(slowMs)]
    child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
    await once(child.stdout ?? child, 'data')
  }
  const end = async (signal: NodeJS.Signals) => child && (await stop(child, signal))
  scope.after(async () => {
    await end('SIGKILL')
    await rm(folder, { recursive: true, force: true })
  })
  await start()
  return {
    name,
    port,
    start,
    kill: async () => void (await end('SIGKILL')),
    finish: async () => void (await end('SIGTERM')),
    freeze: () => void child?.kill('SIGSTOP'),
    executions: async () => (await readFile(ledger, 'utf8')).split('\n').filter(Boolean),
  }
}

function serve([port, name, ledger = '', slowMs]: string[]): void {
  const server = createServer({ keepAliveTimeout: 60_000 }, async (received, response) => {
    if (received.url === '/health') return response.end('ok')
    await received.resume().toArray()
    // With one call before any answer: what was executed is known whenever the process is killed.
    const number = String(received.headers['x-number'])
    appendFileSync(ledger, `${received.method} ${number}\n`)
    await pause((Number(/\d+$/.exec(number)?.[0] ?? 0) * 7) % Number(slowMs))
    response.end(name)
  })
  server.listen(Number(port), '127.0.0.1', () => console.log('listening'))
  process.once('SIGTERM', () => server.close(() => process.exit()))
}

if (process.argv[1] === import.meta.filename) serve(process.argv.slice(2))
