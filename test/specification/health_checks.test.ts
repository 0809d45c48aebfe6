import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { nothingWasADefect } from '../harness/defects.ts'
import { assertRefused, newBackend } from '../harness/fixtures.ts'
import { sharedControlPlane } from '../harness/shared_control_plane.ts'

const plane = await sharedControlPlane({ after })
const admin = await plane.newAccount()
const path = '/backends/static'
const defaults = { interval_seconds: 10, healthy_after: 2, unhealthy_after: 3 }

test('a backend has no health check unless it is asked for, and null removes it', async () => {
  const backend = await newBackend(admin)
  assert.equal(backend.health_check, null)
  const checked = await admin('PATCH', backend.uri, { health_check: { type: 'tcp' } })
  assert.deepEqual(checked.body, { ...backend, health_check: { type: 'tcp', path: null, ...defaults } })
  assert.deepEqual((await admin('PATCH', backend.uri, { description: '' })).body, checked.body)
  assert.deepEqual((await admin('PATCH', backend.uri, { health_check: null })).body, backend)
})

test('omitted fields of a health check have their defaults, on create and on PATCH', async () => {
  const full = { type: 'http', path: '/healthz?full=1', interval_seconds: 300, healthy_after: 10, unhealthy_after: 1 }
  const backend = await newBackend(admin, { health_check: full })
  assert.deepEqual(backend.health_check, full)
  const replaced = await admin('PATCH', backend.uri, { health_check: { type: 'http', interval_seconds: 1 } })
  assert.deepEqual(replaced.body.health_check, { type: 'http', path: '/', ...defaults, interval_seconds: 1 })
  const shownAgain = await admin('PATCH', backend.uri, { health_check: replaced.body.health_check })
  assert.deepEqual(shownAgain.body, replaced.body)
  const tcp = { type: 'tcp', path: null, ...defaults }
  assert.deepEqual((await newBackend(admin, { health_check: tcp })).health_check, tcp)
})

test('a health check outside of its limits is refused', async () => {
  const backend = await newBackend(admin)
  for (const [health_check, field] of [
    [{}, 'type'],
    [{ type: 'grpc' }, 'type'],
    [{ type: 'tcp', path: '/' }, 'path'],
    [{ type: 'http', path: 'healthz' }, 'path'],
    [{ type: 'http', path: '' }, 'path'],
    [{ type: 'http', path: '/a b' }, 'path'],
    [{ type: 'http', path: '/a\r\nHost: b' }, 'path'],
    [{ type: 'http', path: '/a;b' }, 'path'],
    [{ type: 'http', path: '/"a"' }, 'path'],
    [{ type: 'http', path: '/$a' }, 'path'],
    [{ type: 'http', path: '/é' }, 'path'],
    [{ type: 'http', path: `/${'a'.repeat(256)}` }, 'path'],
    [{ type: 'http', interval_seconds: 0 }, 'interval_seconds'],
    [{ type: 'http', interval_seconds: 301 }, 'interval_seconds'],
    [{ type: 'tcp', interval_seconds: 1.5 }, 'interval_seconds'],
    [{ type: 'tcp', healthy_after: 0 }, 'healthy_after'],
    [{ type: 'tcp', healthy_after: 11 }, 'healthy_after'],
    [{ type: 'tcp', unhealthy_after: '3' }, 'unhealthy_after'],
    [{ type: 'tcp', unhealthy_after: 11 }, 'unhealthy_after'],
    [{ type: 'tcp', timeout: 1 }, 'timeout'],
  ] as const) {
    const at = `health_check.${field}`
    assertRefused(await admin('POST', path, { address: 'app:1', health_check }), 400, 'ERR_INVALID_FIELD', at)
    assertRefused(await admin('PATCH', backend.uri, { health_check }), 400, 'ERR_INVALID_FIELD', at)
  }
  for (const health_check of ['tcp', true, []])
    assertRefused(await admin('PATCH', backend.uri, { health_check }), 400, 'ERR_INVALID_FIELD', 'health_check')
  assert.deepEqual((await admin('GET', backend.uri)).body, backend)
})

nothingWasADefect(plane)
