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

/** Ends a child that we leave behind. Called off when the child ends first: its process id may belong to another by then. */
export function endWithUs(child: ChildProcess, script = 'kill "$0"'): void {
  const guard = runOnExit(script, String(child.pid))
  child.once('exit', () => guard.kill())
}

/** For a program that has something of its own to end first. */
export const patientEnd = 'kill "$0"; sleep 5; kill -9 "$0"'
