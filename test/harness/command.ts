import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { loadScaledTimeout } from './load_scaled_timeout.ts'
import { program } from './program.ts'

export type Ended = { code: number | null; stdout: string; stderr: string }

/** Runs the `gatehouse` command to its end, with no other settings than the given ones. */
export async function gatehouse(
  args: string[],
  env: Record<string, string> = {},
  main = program,
  input?: string,
): Promise<Ended> {
  const ours = Object.entries(process.env).filter(([name]) => !name.startsWith('GATEHOUSE_'))
  const child = spawn(process.execPath, [main, ...args], {
    env: { ...Object.fromEntries(ours), ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
    // What should end by itself and does not must not hold up the tests.
    timeout: loadScaledTimeout(30_000),
    killSignal: 'SIGKILL',
  })
  // It may end without having read it.
  child.stdin.on('error', () => {})
  child.stdin.end(input)
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')])
  return { code, stdout, stderr }
}
