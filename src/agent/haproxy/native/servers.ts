import { formatAddress, parseAddress } from '../../../kernel/ip/address.ts'
import { ask } from '../process/runtime.ts'
import type { ProxySettings } from '../settings.ts'
import { type Definition, nativeName } from './definition.ts'

/** Bit of `srv_check_state` for running checks. */
const isChecked = 4

/** The expected servers, in a comparable text. */
export const wantedServers = ({ servers }: Definition): string =>
  servers
    .map(({ name, address, port, options }) =>
      [name, canonical(address), port, /\bssl verify\b/.test(options)].join(' '),
    )
    .sort()
    .join()

const canonical = (address: string): string => {
  const parsed = parseAddress(address)
  return parsed ? formatAddress(parsed) : address
}

/** Null if the server is disabled, drained or unchecked, or its weight was changed. */
function serverOf(fields: readonly string[]): string | null {
  const [, , , name, address = '', , admin, weight, initialWeight] = fields
  const [check, port, ssl] = [fields[13], fields[18], fields[20]]
  if (admin !== '0' || weight !== initialWeight || (Number(check) & isChecked) === 0) return null
  return [name, canonical(address), port, ssl === '1'].join(' ')
}

/** All servers by native backend, to compare with `wantedServers`. */
export async function serversInForce({ runtimeSocket }: ProxySettings, name = ''): Promise<Map<string, string>> {
  const found = new Map<string, (string | null)[]>()
  // `be_id be_name srv_id srv_name srv_addr …`
  for (const row of (await ask(runtimeSocket, `show servers state ${name}`.trim())).split('\n')) {
    const fields = row.split(' ')
    const [, backend = ''] = fields
    if (nativeName.test(backend)) found.set(backend, [...(found.get(backend) ?? []), serverOf(fields)])
  }
  return new Map([...found].map(([backend, servers]) => [backend, servers.toSorted().join()]))
}

/** True if the backend exists with all its servers unchanged. */
export async function isAsMade(settings: ProxySettings, definition: Definition): Promise<boolean> {
  const servers = await serversInForce(settings, definition.name)
  return servers.get(definition.name) === wantedServers(definition)
}
