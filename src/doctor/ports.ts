import { readFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { version } from '../config/version.ts'
import { answerTimeoutMs, type Finding, failed, ok, warning } from './finding.ts'
import { isRunning } from './service_state.ts'
import type { Service } from './services.ts'

type Listen = { host: string; port: number }

const placeOf = ({ host, port }: Listen): string => `${host.includes(':') ? `[${host}]` : host}:${port}`

/** The URL at which this machine reaches a program that listens there. */
export const urlOf = (listen: Listen): string =>
  `http://${placeOf(listen)
    .replace(/^0\.0\.0\.0:/, '127.0.0.1:')
    .replace(/^\[::\]:/, '[::1]:')}`

/** Whether a program could listen on the port now: undefined, or why not. */
export const portFault = ({ host, port }: Listen): Promise<string | undefined> =>
  new Promise((resolve) => {
    const server = createServer()
    server.once('error', ({ code }: NodeJS.ErrnoException) => resolve(code))
    // Same option as HAProxy: [::] does not include IPv4.
    server.listen({ host, port, exclusive: true, ipv6Only: host.includes(':') }, () =>
      server.close(() => resolve(undefined)),
    )
  })

/** Checks the port of one of our servers. If it already runs, it answers `path` with `mark` in the text. */
export async function checkOwnPort(
  check: string,
  setting: string,
  listen: Listen,
  running: { path: string; mark: string; name: string },
  service?: Service,
): Promise<Finding[]> {
  const at = placeOf(listen)
  const fault = listen.port === 0 ? undefined : await portFault(listen)
  if (fault === 'EADDRINUSE') {
    const text = await fetch(`${urlOf(listen)}${running.path}`, { signal: AbortSignal.timeout(answerTimeoutMs) })
      .then((response) => response.text())
      .catch(() => '')
    if (text.includes(running.mark)) return [ok(check, `${running.name} runs at ${at}`), ...versionFindings(text)]
  }
  return [portFinding(check, setting, at, fault, service)]
}

/** After an upgrade of the package, the old version runs until the service is restarted. */
function versionFindings(text: string): Finding[] {
  const [, running] = /(?:gatehouse_build_info\{version=|"version":)"([^"]+)"/.exec(text) ?? []
  return running && running !== version
    ? [warning('versions.running', `${running} is running, and ${version} is installed`, 'Restart the service')]
    : []
}

/** With the service that should listen there, if it is one. */
export function portFinding(
  check: string,
  setting: string,
  at: string,
  fault: string | undefined,
  service?: Service,
): Finding {
  switch (fault) {
    case undefined:
      return service && isRunning(service)
        ? failed(check, `${service.unit} is running, and nothing listens on ${at}`, restartWith(service))
        : ok(check, `${at} is free`)
    case 'EADDRINUSE':
      return failed(
        check,
        `another program listens on ${at}`,
        `Stop it, or change ${setting}. 'ss -ltnp' says which program it is`,
      )
    case 'EACCES':
      return failed(
        check,
        `this user may not listen on ${at}`,
        'Give the service CAP_NET_BIND_SERVICE, as deploy/systemd does, or run doctor as root',
      )
    default:
      return failed(check, `cannot listen on ${at}: ${fault}`, `Correct ${setting}: is it an address of this machine?`)
  }
}

const restartWith = ({ unit }: Service): string =>
  `Its settings may have changed since it started, or it has not come that far: systemctl restart ${unit}, or journalctl -u ${unit}`

const listening = '0A'

/** Ports with a listener at any address: binding each of ten thousand would take seconds. */
export async function portsInUse(): Promise<Set<number>> {
  const tables = await Promise.all(['tcp', 'tcp6'].map((name) => readFile(`/proc/net/${name}`, 'utf8').catch(() => '')))
  const rows = tables.flatMap((table) => table.trim().split('\n').slice(1))
  return new Set(
    rows.flatMap((row) => {
      const [, local = '', , state] = row.trim().split(/\s+/)
      return state === listening ? [Number.parseInt(local.slice(local.lastIndexOf(':') + 1), 16)] : []
    }),
  )
}
