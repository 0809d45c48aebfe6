import type { Client } from '../harness/client.ts'
import type { ControlPlane } from '../harness/control_plane.ts'

type Key = { id: string; uri: string; token: string; owner_id: string }

/** How a key can lose its life. Each is done through one process, and the key then used through the other. */
export const revocations: Record<string, (admin: Client, key: Key, through: { process: number }) => Promise<number>> = {
  'key deleted': async (admin, key, through) => (await admin('DELETE', key.uri, undefined, through)).status,
  'key rotated without overlap': async (admin, key, through) =>
    (await admin('POST', `${key.uri}/rotate`, { overlap_seconds: 0 }, through)).status,
  'key expired': async (admin, key, through) =>
    (await admin('PATCH', key.uri, { expires_at: '2026-01-01T00:00:00Z' }, through)).status,
  'key deleted after a rotation': async (admin, key, through) => {
    await admin('POST', `${key.uri}/rotate`, {}, through)
    return (await admin('DELETE', key.uri, undefined, through)).status
  },
  'bot deactivated': async (admin, { owner_id }, through) =>
    (await admin('PATCH', `/bot_users/${owner_id}`, { active: false }, through)).status,
  'bot deleted': async (admin, { owner_id }, through) =>
    (await admin('DELETE', `/bot_users/${owner_id}`, undefined, through)).status,
  'user deactivated': async (admin, { owner_id }, through) =>
    (await admin('PATCH', `/users/${owner_id}`, { active: false }, through)).status,
  'user deleted': async (admin, { owner_id }, through) =>
    (await admin('DELETE', `/users/${owner_id}`, undefined, through)).status,
}
export type Revocation = keyof typeof revocations

/**
 * A key is used through one process, revoked through the other, and the very next request with it through the first
 * must be 401. Resolves to what went otherwise. Needs two processes; they take turns.
 */
export async function revocationRounds(
  { clientFor }: Pick<ControlPlane, 'clientFor'>,
  admin: Client,
  { rounds, by, atOnce = 8 }: { rounds: number; by: Revocation; atOnce?: number },
): Promise<string[]> {
  const faults: string[] = []
  const revoke = revocations[by]
  if (!revoke) throw new Error(`no such revocation: ${by}`)
  let begun = 0
  const worker = async () => {
    while (begun < rounds) {
      const round = begun++
      const [used, revoked] = round % 2 ? [0, 1] : [1, 0]
      const key = await newKey(admin, by, round)
      const caller = clientFor(key.token)
      // Twice, so that any cache has seen the key.
      const statuses = [
        (await caller('GET', '/caller', undefined, { process: used })).status,
        (await caller('GET', '/caller', undefined, { process: used })).status,
        await revoke(admin, key, { process: revoked }),
        (await caller('GET', '/caller', undefined, { process: used })).status,
      ]
      const expected = [200, 200, by.includes('deleted') ? 204 : 200, 401]
      if (statuses.join() !== expected.join()) faults.push(`round ${round}, ${by}: ${statuses} instead of ${expected}`)
    }
  }
  await Promise.all(Array.from({ length: atOnce }, worker))
  return faults
}

async function newKey(admin: Client, by: Revocation, round: number): Promise<Key> {
  if (by.startsWith('key')) return (await admin('POST', '/api_keys', {})).body
  const { body: owner } = by.startsWith('bot')
    ? await admin('POST', '/bot_users', { name: 'short-lived' })
    : await admin('POST', '/users', { name: 'short-lived', email: `${by.replace(' ', '-')}-${round}@example.com` })
  return (await admin('POST', '/api_keys', { owner_id: owner.id })).body
}
