import { statRows } from '../lines/stats.ts'
import { ask } from '../process/runtime.ts'
import type { ProxySettings } from '../settings.ts'
import { nativeName } from './definition.ts'

export type ServerHealth = { native: string; server: string; isUp: boolean; reason: string | null }

/** Check results for the servers of these native backends, or of all. Omits servers that were not checked yet. */
export async function readHealth({ runtimeSocket }: ProxySettings, names?: Iterable<string>): Promise<ServerHealth[]> {
  const found: ServerHealth[] = []
  for (const name of names ?? ['-1']) found.push(...serverHealth(await ask(runtimeSocket, `show stat ${name} 4 -1`)))
  return found
}

export function serverHealth(text: string): ServerHealth[] {
  return statRows(text).flatMap((of) => {
    const [native, server, status] = [of('pxname'), of('svname'), of('status')]
    // While a check runs, a star precedes the result of the previous one.
    const result = of('check_status').replace(/^\* /, '')
    if (!nativeName.test(native) || result === '' || result === 'INI') return []
    if (!status.startsWith('UP') && !status.startsWith('DOWN')) return []
    const isUp = status.startsWith('UP')
    return [{ native, server, isUp, reason: isUp ? null : reasonOf(result, of('check_code')) }]
  })
}

const reasons: Record<string, string> = {
  L4TOUT: 'connection timed out',
  L4CON: 'connection refused or unreachable',
  L6TOUT: 'TLS handshake timed out',
  L6RSP: 'TLS handshake failed, or the certificate was refused',
  L7TOUT: 'no response to the health check in time',
  L7RSP: 'invalid response to the health check',
  SOCKERR: 'connection failed',
}
const reasonOf = (result: string, code: string): string => {
  if (result === 'L7STS') return `the health check got status ${code}`
  return reasons[result] ?? 'connections failed'
}

/** Coalesces concurrent changes into one read. */
export function createHealthReader(read: (natives: readonly string[]) => Promise<void>) {
  const changed = new Set<string>()
  let isRunning = false

  async function run(): Promise<void> {
    isRunning = true
    while (changed.size > 0) {
      const natives = [...changed]
      changed.clear()
      await read(natives)
    }
    isRunning = false
  }
  return (native: string): void => {
    changed.add(native)
    if (!isRunning) void run()
  }
}

/** Extracts the native backend from a line that HAProxy logs when a server's state changes. */
export const changedNative = (line: string): string | undefined => {
  const name = /^(?:Backup )?Server ([^\s/]+)\/\S+ is (?:UP|DOWN)\b/i.exec(line)?.[1]
  return name !== undefined && nativeName.test(name) ? name : undefined
}
