import { type ChildProcess, spawn } from 'node:child_process'

/**
 * Runs a shell script when this process has ended, even by SIGKILL: the shell's standard input then closes, and it runs
 * what this process no longer can. `$0` is the argument. Killing the returned shell cancels it.
 */
export function runOnExit(script: string, argument: string): ChildProcess {
  const shell = spawn('sh', ['-c', `read -r _; ${script}`, argument], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  })
  shell.unref()
  return shell
}

/**
 * Ends a child that outlives this process. Canceled if the child ends first, because another process may then have its
 * id.
 */
export function endWithUs(child: ChildProcess, script = 'kill "$0"'): void {
  const guard = runOnExit(script, String(child.pid))
  child.once('exit', () => guard.kill())
}

/** For a program that has to end something of its own first. */
export const patientEnd = 'kill "$0"; sleep 5; kill -9 "$0"'
