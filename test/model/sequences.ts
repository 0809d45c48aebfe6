import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import { publicUrl } from '../harness/client.ts'
import type { Account, ControlPlane } from '../harness/control_plane.ts'
import { make, newBackend, newHttpsEdge, newPolicy, newRoute, newTcpEdge } from '../harness/fixtures.ts'
import { comparable, type Real, sequences } from './commands.ts'
import { type Kind, Model } from './model.ts'

let nextTcpPort = 20_002

/** One of every kind in another account, for commands to name and never reach. */
async function foreignThings(stranger: Account, host: string): Promise<Record<Kind, string>> {
  const id = async (made: Promise<{ id: string }>) => (await made).id
  const ip_policies = await id(newPolicy(stranger))
  const edge = await newHttpsEdge(stranger, { hostports: [`${host}:443`] })
  return {
    api_keys: await id(make(stranger, '/api_keys')),
    users: stranger.adminId,
    bot_users: await id(make(stranger, '/bot_users', { name: 'b' })),
    ip_policies,
    ip_policy_rules: await id(
      make(stranger, '/ip_policy_rules', { ip_policy_id: ip_policies, action: 'allow', cidr: '::/0' }),
    ),
    ip_restrictions: await id(make(stranger, '/ip_restrictions', { type: 'agent', ip_policy_ids: [ip_policies] })),
    backends: await id(newBackend(stranger)),
    tcp_edges: await id(newTcpEdge(stranger, { hostports: [`${host}:20001`] })),
    https_edges: edge.id,
    routes: await id(newRoute(stranger, {}, edge)),
  }
}

async function newWorld(plane: ControlPlane, foreign: Record<Kind, string>, foreignHost: string) {
  const admin = await plane.newAccount()
  const model = new Model({
    takenElsewhere: new Set([443, 20_001].map((port) => `${foreignHost}:${port}`)),
    callerId: admin.adminId,
    callerKeyId: (await admin('GET', '/caller')).body.api_key.id,
    publicUrl,
  })
  const real: Real = { admin, foreign, foreignHost, suffix: `${randomUUID()}.example`, tcpPort: nextTcpPort++ }
  // What bootstrapping made is there from the beginning, and is the only thing that the model takes on trust.
  for (const [kind, path] of [
    ['users', `/users/${admin.adminId}`],
    ['api_keys', '/api_keys'],
  ] as const) {
    const { body } = await admin('GET', path)
    const { id, uri: _, ...shown } = comparable(kind === 'users' ? body : body.keys[0]) as { id: string; uri: string }
    model.living.set(id, { kind, id, shown, isCaller: true })
  }
  return { model, real }
}

/** Sequences of commands, several at once, each in its own account. Throws the shortest that disagrees with the model. */
export async function runSequences(plane: ControlPlane, count: number, atOnce = 4, seed?: number) {
  const foreignHost = `${randomUUID()}.example`
  const foreign = await foreignThings(await plane.newAccount(), foreignHost)
  /** How often each was answered, by the error's code where there is one. */
  const answers: Record<string, number> = {}
  const worker = (share: number, offset: number) =>
    fc.assert(
      fc.asyncProperty(sequences, async ({ beginning, rest }) => {
        const { model, real } = await newWorld(plane, foreign, foreignHost)
        const { admin } = real
        const counting = async (...args: Parameters<typeof admin>) => {
          const answer = await admin(...args)
          const name = answer.body?.error_code ?? `${args[0]} ${answer.status}`
          answers[name] = (answers[name] ?? 0) + 1
          return answer
        }
        real.admin = Object.assign(counting, { token: admin.token })
        for (const part of [beginning, rest]) await fc.asyncModelRun(() => ({ model, real }), part)
      }),
      { numRuns: share, ...(seed !== undefined && { seed: seed + offset }) },
    )
  const shares = Array.from({ length: atOnce }, (_, index) => Math.floor((count + index) / atOnce))
  await Promise.all(shares.map(worker))
  return { answers, calls: Object.values(answers).reduce((sum, one) => sum + one, 0) }
}
