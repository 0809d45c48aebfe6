import type { NatsConnection } from '@nats-io/transport-node'

const timeout = 2_000

/** Resolves when NATS has stored it; servers of a cluster give it to each other. Throws when NATS does not take it. */
export async function pushAccount(system: Pick<NatsConnection, 'request'>, accountJwt: string): Promise<void> {
  const answer = await system.request('$SYS.REQ.CLAIMS.UPDATE', accountJwt, { timeout })
  const { data, error } = answer.json<{ data?: { code?: number }; error?: { description?: string } }>()
  if (data?.code !== 200) throw new Error(`NATS refused an account: ${error?.description ?? answer.string()}`)
}
