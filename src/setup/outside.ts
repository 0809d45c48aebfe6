import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseEnv } from 'node:util'
import { ConfigError } from '../kernel/config_error.ts'
import type { Folders } from './files.ts'
import { closedListen, openListen } from './nats.ts'
import { ifRunning } from './services.ts'
import type { Step } from './step.ts'

/** The host under which other machines reach this one. Undefined if none do. */
export function outsideHost(publicUrl: string): string | undefined {
  const host = new URL(publicUrl).hostname.replace(/^\[|\]$/g, '')
  return host === 'localhost' || host === '::1' || host.startsWith('127.') ? undefined : host
}

/**
 * For `--public-url`, which may run at any time: the URL for users, and the address of NATS for nodes on other machines.
 */
export function publicUrlSteps(at: Folders, publicUrl: string): Step[] {
  const host = outsideHost(publicUrl)
  const natsUrl = host && `tls://${host.includes(':') ? `[${host}]` : host}:4222`
  const wanted = { GATEHOUSE_PUBLIC_URL: publicUrl, ...(natsUrl && { GATEHOUSE_NATS_PUBLIC_URL: natsUrl }) }
  return [settingsStep(at, wanted), ...(host ? [listenStep(join(at.nats, 'nats.conf'))] : [])]
}

function settingsStep({ controlPlane }: Folders, wanted: Record<string, string>): Step {
  const [file, own] = [join(controlPlane, 'setup.env'), join(controlPlane, 'gatehouse.env')]
  const settingsIn = (path: string) => (existsSync(path) ? parseEnv(readFileSync(path, 'utf8')) : {})
  return {
    what: `${file}: ${Object.entries(wanted)
      .map(([name, value]) => `${name}=${value}`)
      .join(', ')}`,
    isDone: () => {
      const [made, yours] = [settingsIn(file), settingsIn(own)]
      for (const [name, value] of Object.entries(wanted))
        if ((yours[name] ?? value) !== value)
          throw new ConfigError(
            `${own} sets ${name} to ${yours[name]}, which takes precedence. Change it there, or remove it`,
          )
      return Object.entries(wanted).every(([name, value]) => made[name] === value)
    },
    run: () => {
      const kept = readFileSync(file, 'utf8')
        .split('\n')
        .filter((line) => line !== '' && !Object.keys(wanted).some((name) => line.startsWith(`${name}=`)))
      const lines = Object.entries(wanted).map(([name, value]) => `${name}=${value}`)
      writeFileSync(file, `${[...kept, ...lines].join('\n')}\n`, { flush: true })
      ifRunning('restart', 'gatehouse.service')
    },
  }
}

/** Replaces only this line, so that other changes to the file stay. */
const listenStep = (file: string): Step => ({
  what: `${file}: NATS listens on every address of this machine`,
  isDone: () => existsSync(file) && !readFileSync(file, 'utf8').includes(closedListen),
  run: () => {
    writeFileSync(file, readFileSync(file, 'utf8').replace(closedListen, openListen), { flush: true })
    ifRunning('restart', 'gatehouse-nats.service')
  },
})
