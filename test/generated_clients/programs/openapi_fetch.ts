// What a user of openapi-typescript and openapi-fetch writes. The test puts it beside the generated types and compiles it.
import createClient from 'openapi-fetch'
import type { paths } from './openapi.js'

export const connect = (baseUrl: string, token: string) =>
  createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${token}`, 'Service-Version': '2' } })

/** With required fields only, and the version in no call. */
export async function serve(client: ReturnType<typeof connect>, hostport: string) {
  const backend = await client.POST('/backends/http_response', { body: { body: 'Hello.' } })
  const edge = await client.POST('/edges/https', { body: { hostports: [hostport] } })
  if (!backend.data || !edge.data) throw new Error(backend.error?.msg ?? edge.error?.msg)
  const route = await client.POST('/edges/https/{edge_id}/routes', {
    params: { path: { edge_id: edge.data.id } },
    body: { match_type: 'path_prefix', match: '/', backend: { backend_id: backend.data.id } },
  })
  if (!route.data) throw new Error(`${route.error.error_code} ${route.error.details.operation_id}`)
  const keys = await client.GET('/api_keys')
  return { websocket: route.data.websocket, keys: keys.data?.keys.length }
}
