// What an attacker who can write to NATS does to the bucket, and what a node with an empty disk makes of it.
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { Kvm } from '@nats-io/kv'
import { defaultChannels } from '../../src/distribution/channels.ts'
import { newId } from '../../src/kernel/ids.ts'
import { startHttpUpstream } from '../agent/http_harness.ts'
import { type Scope, stop } from '../harness/control_plane.ts'
import { type EdgeProcess, startInstallation } from '../harness/edge.ts'
import { make, newHttpsEdge } from '../harness/fixtures.ts'
import { policyWith } from '../harness/ip.ts'
import { connectAsControlPlane } from '../harness/nats.ts'
import { pause } from '../harness/poll.ts'
import { statusOf } from '../upgrade/installation.ts'

export const damages = ['garbage', 'deleted', 'older'] as const
export type Damage = (typeof damages)[number]

/** One open route, and for each damage a narrower one that refuses everybody. */
export async function startGuarded(scope: Scope) {
  const installation = await startInstallation(scope)
  const { admin } = installation
  const web = await startHttpUpstream(scope as unknown as TestContext, 'web')
  const backend = { backend_id: (await make(admin, '/backends/static', { address: `127.0.0.1:${web.port}` })).id }
  const { uri } = await newHttpsEdge(admin, { hostports: ['a.example:443'] })
  const node = await installation.startEdge()
  const addRoute = (match: string) =>
    make(admin, `${uri}/routes?wait=applied`, { match_type: 'path_prefix', match, backend })
  await addRoute('/')
  const control = await connectAsControlPlane(scope, installation.nats)
  const bucket = await new Kvm(jetstream(control)).open(defaultChannels.records)
  const { streams } = await jetstreamManager(control)
  const emptyPolicy = { ip_policy_ids: [await policyWith(admin)] }
  const routes = new Map<Damage, { key: string; older: string }>()
  for (const damage of damages) {
    const route = await make(admin, `${uri}/routes?wait=applied`, {
      ...{ match_type: 'path_prefix', match: `/${damage}`, backend },
      // The older version is open.
      ...(damage !== 'older' && { ip_restriction: emptyPolicy }),
    })
    const key = `route.${route.id}`
    const older = (await bucket.get(key))?.string() ?? ''
    if (damage === 'older') {
      const { status, text } = await admin('PUT', `${route.uri}/ip_restriction?wait=applied`, emptyPolicy)
      assert.equal(status, 200, text)
    }
    routes.set(damage, { key, older })
  }
  return {
    ...installation,
    node,
    bucket,
    keyOf: (damage: Damage) => routes.get(damage)?.key ?? '',
    async harm(damage: Damage): Promise<void> {
      const { key, older } = routes.get(damage) ?? { key: '', older: '' }
      if (damage === 'garbage') await bucket.put(key, '{"type":"io.nats.jetstream.api.v1.stream_info_response"}')
      if (damage === 'older') await bucket.put(key, older)
      if (damage === 'deleted')
        await streams.purge(`KV_${defaultChannels.records}`, { filter: `$KV.${defaultChannels.records}.${key}` })
    },
    async litter(count: number): Promise<void> {
      for (let i = 0; i < count; i++) await bucket.put(`tcp.${newId('edgtcp')}`, '{"type":"error"}')
    },
  }
}

export const statusAt = ({ httpsPort }: EdgeProcess, damage: Damage | '') =>
  statusOf(httpsPort, 'a.example', '127.0.0.1', `/${damage}`)

/** Asks a new node until it refuses all of these for good, and counts what it answered on the way. */
export async function askNewNode(
  { startEdge }: Pick<Awaited<ReturnType<typeof startGuarded>>, 'startEdge'>,
  asked: readonly Damage[],
) {
  const edge = await startEdge({ cutOff: true })
  const counts: Record<number, number> = {}
  const refused = new Set<Damage>()
  const deadline = Date.now() + 120_000
  while (refused.size < asked.length && Date.now() < deadline) {
    for (const damage of asked) {
      const status = await statusAt(edge, damage)
      counts[status] = (counts[status] ?? 0) + 1
      if (status === 403) refused.add(damage)
    }
    await pause(10)
  }
  const open = await statusAt(edge, '')
  await stop(edge.child)
  return { counts, refused: [...refused].sort(), open }
}
