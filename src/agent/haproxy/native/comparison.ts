import type { Difference } from '../comparison/difference.ts'
import type { ProxySettings } from '../settings.ts'
import type { Definition } from './definition.ts'
import { backendsInForce } from './runtime.ts'
import { serversInForce, wantedServers } from './servers.ts'

/** Finds native backends that differ from their definition. Ignores those that wait for their last connection. */
export async function nativeDifferences(
  settings: ProxySettings,
  wanted: Iterable<Definition>,
  isRetired: (name: string) => boolean,
): Promise<Difference[]> {
  const [backends, servers] = [await backendsInForce(settings), await serversInForce(settings)]
  const found: Difference[] = []
  const note = (name: string, kind: Difference['kind']) => found.push({ what: 'native backend', name, kind })
  for (const definition of wanted) {
    const { name } = definition
    const backend = backends.get(name)
    backends.delete(name)
    if (!backend) note(name, 'missing')
    else if (!backend.isPublished || servers.get(name) !== wantedServers(definition)) note(name, 'changed')
  }
  for (const name of backends.keys()) if (!isRetired(name)) note(name, 'unexpected')
  return found
}
