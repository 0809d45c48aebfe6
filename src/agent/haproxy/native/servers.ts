import { formatAddress, parseAddress } from '../../../kernel/ip/address.ts'
import { ask } from '../process/runtime.ts'
import type { ProxySettings } from '../settings.ts'
import { type Definition, nativeName } from './definition.ts'

/** The bit of `srv_check_state` that says that checks run. */
const isChecked = 4

/** A server as it was made, in words that can be compared. */
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

/** Null for one that is disabled, drained, not checked, or has another weight than it was made with. */
function serverOf(fields: readonly string[]): string | null {
  const [, , , name, address = '', , admin, weight, initialWeight] = fields
  const [check, port, ssl] = [fields[13], fields[18], fields[20]]
  if (admin !== '0' || weight !== initialWeight || (Number(check) & isChecked) === 0) return null
  return [name, canonical(address), port, ssl === '1'].join(' ')
}

/** By native backend, all its servers, to be compared with `wantedServers`. */
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

/** Whether it is there with all its servers, as they were made. */
export async function isAsMade(settings: ProxySettings, definition: Definition): Promise<boolean> {
  const servers = await serversInForce(settings, definition.name)
  return servers.get(definition.name) === wantedServers(definition)
}
