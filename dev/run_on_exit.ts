import { type ChildProcess, spawn } from 'node:child_process'

/**
 * Runs a shell script when this process has ended, even by SIGKILL: the shell's standard input closes with us, and it
 * then does what we could not. `$0` is the argument. Killing the returned shell calls it off.
 */
export function runOnExit(script: string, argument: string): ChildProcess {
  const shell = spawn('sh', ['-c', `read -r _; ${script}`, argument], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  })
  shell.unref()
  return shell
}
