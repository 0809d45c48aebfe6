import type { NatsConnection } from '@nats-io/transport-node'
import type { LocalNats } from '../../dev/nats.ts'
import { connectNats } from '../../src/distribution/nats_connection.ts'
import type { Scope } from './control_plane.ts'

/** A connection as the control plane has it, with its permissions. */
export async function connectAsControlPlane(scope: Scope, { url, controlPlane }: LocalNats): Promise<NatsConnection> {
  const connection = await connectNats({
    servers: [url],
    name: 'test',
    user: `${controlPlane.GATEHOUSE_NATS_USER}`,
    password: `${controlPlane.GATEHOUSE_NATS_PASSWORD}`,
    signal: new AbortController().signal,
  })
  scope.after(() => connection.close())
  return connection
}
