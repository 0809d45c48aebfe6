// HAProxy and NATS for development and tests: those of `npm run engines` if present, otherwise those on the PATH.
import { spawnSync } from 'node:child_process'
import { delimiter, join } from 'node:path'

const folder = join(new URL('..', import.meta.url).pathname, '.engines')

/** For this process and its children. Debian installs servers in /usr/sbin, which is not on every PATH. */
export function putEnginesOnPath(): void {
  process.env.PATH = [folder, process.env.PATH, '/usr/sbin'].join(delimiter)
}

/** Undefined if everything is present; otherwise what is missing and how to get it. */
export function missingEngines(): string | undefined {
  const isAtLeast = (version: string, wanted: number) => {
    const [, major, minor] = /v(?:ersion )?(\d+)\.(\d+)/.exec(version) ?? []
    return major !== undefined && Number(major) * 100 + Number(minor) >= wanted
  }
  const missing = [
    ...(isAtLeast(printed('haproxy', '-v'), 304) ? [] : ['HAProxy 3.4 or newer']),
    // Nodes read the bucket with batched direct gets, which need 2.11.
    ...(isAtLeast(printed('nats-server', '--version'), 211) ? [] : ['nats-server 2.11 or newer']),
  ]
  return missing.length === 0
    ? undefined
    : `${missing.join(' and ')} not found. On Debian 12, 'npm run engines' installs both into .engines; elsewhere, put them on your PATH.`
}

const printed = (program: string, flag: string): string => spawnSync(program, [flag], { encoding: 'utf8' }).stdout ?? ''
