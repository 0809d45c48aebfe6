// Stands in for node:child_process in the harness while mutants are tried: `gatehouse serve` runs in this process, where
// mutants are switched.
import { type ChildProcess, spawn as spawnProcess } from 'node:child_process'
import { EventEmitter, once } from 'node:events'
import { createServer } from 'node:net'
import { PassThrough } from 'node:stream'
import { serve } from '../../src/commands/serve.ts'
import { readConfig } from '../../src/config/config.ts'

type Settings = Record<string, string>

export function spawn(program: string, args: string[], options: { env: Settings }): ChildProcess {
  if (args.at(-1) !== 'serve') return spawnProcess(program, args, options)
  const [stdout, stderr] = [new PassThrough(), new PassThrough()]
  // It stays until this process ends: tests may run again.
  const kill = () => {
    child.exitCode = 0
    setImmediate(() => child.emit('exit', 0))
    return true
  }
  const child = Object.assign(new EventEmitter(), {
    stdout,
    stderr,
    pid: process.pid,
    exitCode: null as number | null,
    signalCode: null,
    kill,
  })
  void start(options.env).then(
    (port) => stdout.write(`${JSON.stringify({ msg: 'listening', level: 'info', address: { port } })}\n`),
    (error) => {
      child.exitCode = 1
      child.emit('exit', `1: ${error.stack}`)
    },
  )
  return child as unknown as ChildProcess
}

async function start(env: Settings): Promise<number> {
  const port = await freePort()
  const config = readConfig({ ...env, GATEHOUSE_LISTEN: `127.0.0.1:${port}`, GATEHOUSE_LOG_LEVEL: 'fatal' })
  const ended = serve(config).then(() => {
    throw new Error('ended')
  })
  const answered = async () => {
    while (!(await fetch(`http://127.0.0.1:${port}/healthz`).catch(() => undefined))?.ok)
      await new Promise(setImmediate)
  }
  await Promise.race([ended, answered()])
  return port
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  server.close()
  await once(server, 'close')
  return port
}
