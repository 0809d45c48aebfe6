import { execFileSync } from 'node:child_process'
import { setTimeout } from 'node:timers/promises'
import { ConfigError } from '../kernel/config_error.ts'

const patienceMs = 60_000

const systemctl = (...args: string[]): string =>
  execFileSync('systemctl', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }).trim()

/**
 * Starts a systemd unit with its current settings, now and at every boot, and waits until it is ready. A running node is
 * reloaded instead: another agent takes over its HAProxy, and no request fails.
 */
export async function startUnit(unit: string, readyUrl?: () => string): Promise<void> {
  const processOf = () => systemctl('show', '--property=MainPID', '--value', unit)
  const before = processOf()
  try {
    systemctl('enable', '--quiet', unit)
    systemctl('reload-or-restart', unit)
  } catch (error) {
    throw new ConfigError(
      `${unit} does not start: ${(error as { stderr?: string }).stderr}See: journalctl -u 'gatehouse*'`,
    )
  }
  if (!readyUrl) return
  const deadline = Date.now() + patienceMs
  for (;;) {
    const state = processOf() === before ? 'its former process is still there' : await readiness(readyUrl())
    if (state === 'ready') return
    if (Date.now() > deadline)
      throw new ConfigError(
        `${unit} is not ready after ${patienceMs / 1_000} seconds: ${state}. See: journalctl -u ${unit}`,
      )
    await setTimeout(250)
  }
}

export async function readiness(url: string): Promise<string> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(5_000) })
    if (response.ok) return 'ready'
    const { reason } = (await response.json()) as { reason?: string }
    return reason ?? `${url} answers ${response.status}`
  } catch {
    return `${url} does not answer`
  }
}

export const readyUrl = ({ host, port }: { host: string; port: number }): string =>
  `http://${host.includes(':') ? `[${host}]` : host}:${port}/readyz`
