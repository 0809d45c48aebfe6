// What a user of @hey-api/openapi-ts writes. The test puts it beside the generated client and compiles it.
import { createClient, createConfig } from './hey_api/client/index.js'
import { apiKeysList, httpResponseBackendsCreate, httpsEdgeRoutesCreate, httpsEdgesCreate } from './hey_api/sdk.gen.js'
import { zHttpsEdgeRouteCreate } from './hey_api/zod.gen.js'

export const connect = (baseUrl: string, token: string) =>
  createClient(createConfig({ baseUrl, headers: { Authorization: `Bearer ${token}`, 'Service-Version': '2' } }))

/** With required fields only, and the version in no call. */
export async function serve(client: ReturnType<typeof connect>, hostport: string) {
  const backend = await httpResponseBackendsCreate({ client, body: { body: 'Hello.' }, throwOnError: true })
  const edge = await httpsEdgesCreate({ client, body: { hostports: [hostport] }, throwOnError: true })
  const route = await httpsEdgeRoutesCreate({
    client,
    path: { edge_id: edge.data.id },
    body: zHttpsEdgeRouteCreate.parse({
      match_type: 'path_prefix',
      match: '/',
      backend: { backend_id: backend.data.id },
    }),
    throwOnError: true,
  })
  const keys = await apiKeysList({ client })
  return { websocket: route.data.websocket, keys: keys.data?.keys.length }
}
