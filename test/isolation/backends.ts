import type { Expectation, Make } from './expectation.ts'
import { id, make } from './make.ts'

export const backend = make('/backends/static', () => ({ address: 'app.internal:8080' }))
export const weighted: Make = async (as) => {
  const member = await backend(as)
  return make('/backends/weighted', () => ({ backends: { [member]: 1 } }))(as)
}
export const response = make('/backends/http_response', () => ({ status_code: 503, body: 'one' }))
export const failover: Make = async (as) => {
  const members = [await backend(as), await response(as)]
  return make('/backends/failover', () => ({ backends: members }))(as)
}

export const backendExpectations: Record<string, Expectation> = {
  'static_backends.create': { admin: 201, member: 201, body: () => ({ address: 'app.internal:80' }) },
  'static_backends.get': { admin: 200, member: 200, path: id(backend) },
  'static_backends.health': { admin: 200, member: 200, path: id(backend) },
  'static_backends.list': { admin: 200, member: 200, lists: backend },
  'static_backends.update': { admin: 200, member: 200, path: id(backend), body: () => ({ tls: { enabled: true } }) },
  'static_backends.delete': { admin: 204, member: 204, path: id(backend) },

  'weighted_backends.create': {
    admin: 201,
    member: 201,
    body: async (as) => ({ backends: { [await backend(as)]: 10 } }),
  },
  'weighted_backends.get': { admin: 200, member: 200, path: id(weighted) },
  'weighted_backends.health': { admin: 200, member: 200, path: id(weighted) },
  'weighted_backends.list': { admin: 200, member: 200, lists: weighted, filters: { backend_id: backend } },
  'weighted_backends.update': {
    admin: 200,
    member: 200,
    path: id(weighted),
    body: async (as) => ({ backends: { [await backend(as)]: 0 } }),
  },
  'weighted_backends.delete': { admin: 204, member: 204, path: id(weighted) },

  'failover_backends.create': {
    admin: 201,
    member: 201,
    body: async (as) => ({ backends: [await backend(as)] }),
    references: { backends: [backend] },
  },
  'failover_backends.get': { admin: 200, member: 200, path: id(failover) },
  'failover_backends.health': { admin: 200, member: 200, path: id(failover) },
  'failover_backends.list': { admin: 200, member: 200, lists: failover, filters: { backend_id: response } },
  'failover_backends.update': {
    admin: 200,
    member: 200,
    path: id(failover),
    body: async (as) => ({ backends: [await backend(as), await response(as)] }),
    references: { backends: [response] },
  },
  'failover_backends.delete': { admin: 204, member: 204, path: id(failover) },

  'http_response_backends.create': { admin: 201, member: 201, body: () => ({ status_code: 404, body: 'none' }) },
  'http_response_backends.get': { admin: 200, member: 200, path: id(response) },
  'http_response_backends.health': { admin: 200, member: 200, path: id(response) },
  'http_response_backends.list': { admin: 200, member: 200, lists: response },
  'http_response_backends.update': { admin: 200, member: 200, path: id(response), body: () => ({ body: 'other' }) },
  'http_response_backends.delete': { admin: 204, member: 204, path: id(response) },
}
