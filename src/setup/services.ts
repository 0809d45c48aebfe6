import { execFileSync, spawnSync } from 'node:child_process'
import { setTimeout } from 'node:timers/promises'
import { ConfigError } from '../kernel/config_error.ts'
import type { Step } from './step.ts'

const hints: Record<string, string> = {
  'nats-server': 'docs/guides/install-debian.md shows how to install NATS 2.11 or newer',
  haproxy: 'docs/guides/install-debian.md shows how to install HAProxy 3.4 or newer',
}

/** All that are missing, at once. */
export function requirePrograms(names: readonly string[]): void {
  const missing = names.filter((name) => spawnSync('sh', ['-c', 'command -v "$0"', name]).status !== 0)
  if (missing.length)
    throw new ConfigError(
      `not installed: ${missing.map((name) => (hints[name] ? `${name} (${hints[name]})` : name)).join(', ')}`,
    )
}

const patienceMs = 60_000

/** Runs, also after a reboot, and answers at its readiness URL, if it has one. */
export const serviceStep = (unit: string, readyUrl?: () => string): Step => ({
  what: `${unit} is enabled and ${readyUrl ? 'ready' : 'running'}`,
  isDone: async () => {
    const isRunning = ['is-active', 'is-enabled'].every((verb) => spawnSync('systemctl', [verb, unit]).status === 0)
    return isRunning && (!readyUrl || (await isReady(readyUrl())))
  },
  run: async () => {
    try {
      execFileSync('systemctl', ['enable', '--quiet', unit], { stdio: ['ignore', 'ignore', 'pipe'] })
      execFileSync('systemctl', ['restart', unit], { stdio: ['ignore', 'ignore', 'pipe'] })
    } catch (error) {
      throw new ConfigError(
        `${unit} does not start: ${(error as { stderr?: Buffer }).stderr}See: journalctl -u 'gatehouse*'`,
      )
    }
    const deadline = Date.now() + patienceMs
    while (readyUrl && !(await isReady(readyUrl()))) {
      if (Date.now() > deadline)
        throw new ConfigError(
          `${unit} is not ready after ${patienceMs / 1_000} seconds. See ${readyUrl()} and: journalctl -u ${unit}`,
        )
      await setTimeout(250)
    }
  },
})

const isReady = (url: string): Promise<boolean> =>
  fetch(url, { signal: AbortSignal.timeout(5_000) }).then(
    ({ ok }) => ok,
    () => false,
  )
