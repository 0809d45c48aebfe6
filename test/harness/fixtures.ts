import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import type { Answer, Client } from './client.ts'

/** Resources that tests need. Each is created through the API, and resolves to the body of its 201. */
export async function make(as: Client, path: string, body: object = {}) {
  const created = await as('POST', path, body)
  assert.equal(created.status, 201, created.text)
  return created.body
}

export const newPolicy = (as: Client, fields: object = {}) => make(as, '/ip_policies', fields)
export const newBackend = (as: Client, fields: object = {}) =>
  make(as, '/backends/static', { address: 'app.internal:8080', ...fields })
export const newTcpEdge = (as: Client, fields: object = {}) => make(as, '/edges/tcp', fields)
export const newHttpsEdge = (as: Client, fields: object = {}) => make(as, '/edges/https', fields)

let routes = 0
/** On the given edge, or on a new one. */
export async function newRoute(as: Client, fields: object = {}, edge?: { uri: string }) {
  const above = edge ?? (await newHttpsEdge(as))
  return make(as, `${above.uri}/routes`, { match_type: 'path_prefix', match: `/${routes++}`, ...fields })
}

/** A host name that nothing in the installation has. */
export const freshHost = () => `h-${randomUUID()}.example`

type Made = { id: string; uri: string }
export const refOf = ({ id, uri }: Made) => ({ id, uri })
/** What modules show of what they refer to. */
export const shownBackend = (backend: Made) => ({ backend_id: backend.id, backend: refOf(backend) })
export const shownPolicies = (...policies: Made[]) => ({
  mode: 'enforce',
  ip_policy_ids: policies.map(({ id }) => id),
  ip_policies: policies.map(refOf),
})

export function assertRefused({ status, body, text }: Answer, expected: number, code: string, field?: string): void {
  assert.deepEqual([status, body?.error_code, body?.details?.field], [expected, code, field], text)
}

export const ifMatch = (...tags: string[]) => ({ headers: { 'if-match': tags.join(', ') } })
export const etagOf = ({ headers }: Answer): string => headers.get('etag') ?? ''
