import { spawnSync } from 'node:child_process'
import { readiness, startUnit } from '../commands/start_unit.ts'
import { ConfigError } from '../kernel/config_error.ts'
import type { Step } from './step.ts'

const hints: Record<string, string> = {
  'nats-server': 'docs/guides/install-debian.md shows how to install NATS 2.11 or newer',
  haproxy: 'docs/guides/install-debian.md shows how to install HAProxy 3.4 or newer',
}

/** Reports all missing programs at once. */
export function requirePrograms(names: readonly string[]): void {
  const missing = names.filter((name) => spawnSync('sh', ['-c', 'command -v "$0"', name]).status !== 0)
  if (missing.length)
    throw new ConfigError(
      `not installed: ${missing.map((name) => (hints[name] ? `${name} (${hints[name]})` : name)).join(', ')}`,
    )
}

/** A service that does not run is started by its own step. */
export const ifRunning = (verb: 'restart' | 'reload-or-restart', unit: string): void =>
  void spawnSync('systemctl', [`try-${verb}`, unit])

/** The unit runs now and after a reboot, and its readiness URL responds, if it has one. */
export const serviceStep = (unit: string, readyUrl?: () => string): Step => ({
  what: `${unit} is enabled and ${readyUrl ? 'ready' : 'running'}`,
  isDone: async () => {
    const isRunning = ['is-active', 'is-enabled'].every((verb) => spawnSync('systemctl', [verb, unit]).status === 0)
    return isRunning && (!readyUrl || (await readiness(readyUrl())) === 'ready')
  },
  run: () => startUnit(unit, readyUrl),
})
