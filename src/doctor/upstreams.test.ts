import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readEdgeConfig } from '../config/config.ts'
import { checkUpstreams } from './upstreams.ts'

const check = (env: Record<string, string> = {}) =>
  checkUpstreams(
    readEdgeConfig({
      GATEHOUSE_EDGE_NODE: 'edge-1',
      GATEHOUSE_EDGE_TRUSTED_KEYS: 'key',
      GATEHOUSE_NATS_URL: 'tls://10.0.0.5:4222',
      GATEHOUSE_EDGE_CONTROL_PLANE_HOSTS: 'localhost,203.0.113.10',
      ...env,
    }),
  )

test('doctor is content if no host of NATS and the control plane would be dialed for tenants', async () => {
  const denied = { GATEHOUSE_EDGE_UPSTREAM_ALLOW: '10.0.0.0/8', GATEHOUSE_EDGE_UPSTREAM_DENY: '10.0.0.5' }
  const good: Record<string, string>[] = [{}, { GATEHOUSE_EDGE_UPSTREAM_ALLOW: '192.168.0.0/16' }, denied]
  for (const env of good)
    assert.deepEqual(
      (await check(env)).map(({ status }) => status),
      ['ok'],
    )
})

for (const [what, env, says] of [
  [
    'NATS or the API is in an allowed network',
    { GATEHOUSE_EDGE_UPSTREAM_ALLOW: '10.0.0.0/8,203.0.113.0/24' },
    /^tenants can have this node dial ports of 10\.0\.0\.5, 203\.0\.113\.10, because GATEHOUSE_EDGE_UPSTREAM_ALLOW/,
  ],
  [
    'the node does not know the control plane',
    { GATEHOUSE_EDGE_CONTROL_PLANE_HOSTS: '' },
    /^GATEHOUSE_EDGE_CONTROL_PLANE_HOSTS is not set/,
  ],
  [
    'a host of the control plane has no address',
    { GATEHOUSE_EDGE_CONTROL_PLANE_HOSTS: 'gatehouse.invalid' },
    /^gatehouse\.invalid cannot be resolved/,
  ],
] as const)
  test(`doctor warns if ${what}`, async () => {
    const [found, ...others] = await check(env)
    assert.deepEqual([found?.check, found?.status, others], ['edge.upstreams', 'warning', []])
    assert.match(found?.message ?? '', says)
    assert.ok(found?.hint)
  })
