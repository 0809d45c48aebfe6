import assert from 'node:assert/strict'
import { routes } from '../../src/resources/routes.ts'
import type { Client } from '../harness/client.ts'

export type Shown = Record<string, unknown> & { id: string }
/** What can be configured, by the operation that lists it: not history, and nothing of the installation. */
export type Configuration = Record<string, Shown[]>

const history =
  /^(audit_events|change_sets|requests|edge_nodes|cells|ip_refusals|ip_activity|traffic_statistics|newly_refused|api_keys)/
const lists = routes.filter(
  ({ operation, params, response }) =>
    operation.endsWith('.list') && !params && !history.test(operation) && response?.properties?.next_page_uri,
)

export async function configurationOf(account: Client, only = /./): Promise<Configuration> {
  const wanted = lists.filter(({ operation }) => only.test(operation))
  const shown = wanted.map(async ({ operation, path }): Promise<[string, Shown[]]> => {
    const items: Shown[] = []
    for (let next: string | null = path; next; ) {
      const { status, body, text }: Awaited<ReturnType<Client>> = await account('GET', next)
      assert.equal(status, 200, text)
      items.push(...(Object.values(body).find(Array.isArray) as Shown[]))
      next = body.next_page_uri
    }
    return [operation, items]
  })
  return Object.fromEntries(await Promise.all(shown))
}

/** Not what changes by itself, or is another one for what is created again. */
const isConfigured = (name: string): boolean =>
  !/^(created_at|status|last_used_at|uri|has_signed_in|invitation_(state|expires_at|api_key_id))$/.test(name)

/** Without what is another one for something that is created again. What refers to it refers to its contents. */
export function comparable(configuration: Configuration): unknown {
  const inOrder = sorted(configuration) as Configuration
  const all = Object.values(inOrder).flat()
  const bare = (value: unknown): string =>
    JSON.stringify(value, (name, each) => (isConfigured(name) && !/^(id|edge_id)$/.test(name) ? each : undefined))
  const references = new Map(all.map((each) => [each.id, bare(each).replaceAll(/[a-z]+_[0-9a-z]{26}/g, '…')]))
  const named = (value: unknown) =>
    JSON.stringify(value, (name, each) =>
      !isConfigured(name) || (name === 'id' && each === (value as Shown).id)
        ? undefined
        : typeof each === 'string'
          ? (references.get(each) ?? each)
          : each,
    )
  return Object.fromEntries(
    Object.entries(inOrder).map(([operation, items]) => [
      operation,
      items.map((item) => named(withoutRouteIds(item)).replaceAll(/[a-z]+_[0-9a-z]{26}/g, '…')).sort(),
    ]),
  )
}

const withoutRouteIds = (item: Shown): Shown =>
  Array.isArray(item.routes) ? { ...item, routes: item.routes.map(({ id: _, edge_id: __, ...route }) => route) } : item

/** Events have the fields in another order. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted)
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).map(([name, each]) => [name, sorted(each)] as const)
  return Object.fromEntries(entries.sort(([one], [other]) => (one < other ? -1 : 1)))
}
