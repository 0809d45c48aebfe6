import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { endWithUs, patientEnd } from '../../dev/run_on_exit.ts'
import { gatehouse } from '../harness/command.ts'
import { type Scope, stop } from '../harness/control_plane.ts'
import { program } from '../harness/program.ts'
import { testRun } from '../harness/test_run.ts'

export type Running = { child: ChildProcess; log: Record<string, unknown>[] }

/** One version of Gatehouse: its commands, and the processes that it was started as. */
export type Version = {
  name: string
  run: (args: string[], env: Record<string, string>) => Promise<string>
  /** Resolves when it has logged that it serves. */
  start: (scope: Scope, command: 'serve' | 'edge', env: Record<string, string>) => Promise<Running>
}

const servesWhen = { serve: 'listening', edge: 'serving from disk' }

export function versionIn(name: string, folder?: string): Version {
  const main = folder ? join(folder, 'src/main.ts') : program
  return {
    name,
    async run(args, env) {
      const { code, stdout, stderr } = await gatehouse(args, env, main)
      if (code !== 0) throw new Error(`${name}: gatehouse ${args.join(' ')} ended with ${code}: ${stderr}`)
      return stdout
    },
    async start(scope, command, env) {
      const ours = Object.entries(process.env).filter(([variable]) => !variable.startsWith('GATEHOUSE_'))
      const child = spawn(process.execPath, [main, command], {
        env: { ...Object.fromEntries(ours), ...env },
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      endWithUs(child, patientEnd)
      scope.after(() => stop(child))
      const file = createWriteStream(join(testRun.folder, `${command}-${name}-${child.pid}.log`))
      const log: Record<string, unknown>[] = []
      await new Promise<void>((resolve, reject) => {
        child.once('exit', (code) => reject(new Error(`${name}: gatehouse ${command} ended with ${code}`)))
        createInterface({ input: child.stdout }).on('line', (text) => {
          file.write(`${text}\n`)
          const line = JSON.parse(text)
          log.push(line)
          if (line.msg === servesWhen[command]) resolve()
        })
      })
      return { child, log }
    },
  }
}

/** Leaves HAProxy running, for the next agent. */
export async function leave({ child }: Running): Promise<void> {
  const exited = once(child, 'exit')
  child.kill('SIGHUP')
  await exited
}
