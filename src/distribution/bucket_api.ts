import { type DirectStreamAPI, jetstreamManager, type StreamAPI } from '@nats-io/jetstream'
import { type NatsConnection, PermissionViolationError, RequestError } from '@nats-io/transport-node'
import { apiPrefix, type Channels } from './channels.ts'

/**
 * The API through which a node reads the buckets. `isShared`: the node is in the control plane's account, as NATS was
 * set up before 0.3.
 */
export type BucketApi = {
  streams: Pick<StreamAPI, 'info' | 'getMessage'>
  direct: Pick<DirectStreamAPI, 'getBatch'>
  isShared: boolean
}

export const sharedAccount = {
  fault: 'this node is in the NATS account of the control plane: its password can overwrite the records of all nodes',
  hint: "Once every agent is upgraded, give NATS this version's authorization.conf: see docs/operate/upgrade.md",
}

/** Checks on each call, because NATS may have a new configuration since. Throws if NATS does not answer. */
export async function openBucketApi(
  nats: NatsConnection,
  { records }: Pick<Channels, 'records'>,
  timeout = 5_000,
): Promise<BucketApi> {
  const isShared = await nats.request(`${apiPrefix}.STREAM.INFO.KV_${records}`, '', { timeout }).then(
    () => false,
    (error) => {
      if (isNotOffered(error)) return true
      throw error
    },
  )
  const options = { checkAPI: false, timeout, ...(isShared ? {} : { apiPrefix }) }
  const { streams, direct } = await jetstreamManager(nats, options)
  // The prefix may be offered later: a leaf server without its link has no responder for it either.
  if (isShared) await streams.info(`KV_${records}`)
  return { streams, direct, isShared }
}

/** The prefix has no responder, or the permissions of an older authorization.conf forbid the request. */
const isNotOffered = (error: unknown): boolean =>
  error instanceof RequestError && (error.isNoResponders() || error.cause instanceof PermissionViolationError)
