import { spawn } from 'node:child_process'
import { once } from 'node:events'

const mark = 'GATEHOUSE_AVAILABILITY_INSIDE'

/** True in a process that `enter` has started. */
export const isInside = (): boolean => process.env[mark] === '1'

/**
 * Runs a program of Node in namespaces of its own for the network, mounts and processes. When it ends, however it ends, the
 * kernel ends everything that it has started and removes every machine. Resolves to its exit code.
 */
export async function enter(file: string, args: readonly string[]): Promise<number> {
  // A shell as the first process: it takes in orphans, and Node would not.
  const script = 'mkdir -p /run/netns && mount -t tmpfs none /run/netns && "$@"; exit $?'
  const separate = ['--net', '--mount', '--pid', '--fork', '--kill-child', '--mount-proc', '--propagation', 'private']
  const child = spawn('unshare', [...separate, 'sh', '-c', script, 'sh', process.execPath, file, ...args], {
    stdio: 'inherit',
    env: { ...process.env, [mark]: '1' },
  })
  const [code] = await once(child, 'exit')
  return code ?? 1
}
