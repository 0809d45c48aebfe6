import type { createAgent } from '../../agent/agent.ts'
import type { Credentials } from '../../agent/disk/credentials.ts'
import { createReceiver, follow as followForGood } from '../../agent/intake/receiver.ts'
import type { Allowed } from '../../agent/reports/allowed.ts'
import type { Health } from '../../agent/reports/health.ts'
import type { createHits } from '../../agent/reports/hits.ts'
import { createReporter } from '../../agent/reports/reporter.ts'
import type { RuleHits } from '../../agent/reports/rule_hits.ts'
import type { EdgeConfig } from '../../config/config.ts'
import { openBucketApi, sharedAccount } from '../../distribution/bucket_api.ts'
import { channelsOf, inboxOf, type Report } from '../../distribution/channels.ts'
import { connectNats, createNatsLink } from '../../distribution/nats_connection.ts'
import type { RecordKey } from '../../distribution/records.ts'
import type { TrustedKeys } from '../../distribution/signature.ts'
import type { Log } from '../../kernel/log.ts'
import { systemTiming } from '../../kernel/system_timing.ts'
import { createClockWatch } from './clock_watch.ts'
import type { Requests } from './requests.ts'

type Node = {
  keys: TrustedKeys
  agent: ReturnType<typeof createAgent>
  hits: ReturnType<typeof createHits>
  allowed: Allowed
  ruleHits: RuleHits
  health: Health
  requests: Pick<Requests, 'seen' | 'trafficCounting'>
  current: () => Omit<Report, 'hits' | 'allowed' | 'health' | 'upstreams'>
}

/** NATS's wording for a refused JWT. */
const isRefusal = (reason: string): boolean => /authorization violation|authentication (expired|revoked)/i.test(reason)
const invitedAgain =
  "This node was revoked, or was away for more than 7 days. It serves what it has and gets no changes. To let it join again, see 'Join again' in docs/operate/edge-nodes.md"

/** The node's connection to the control plane. The node works without it, and takes in changes once it is connected. */
export function createLink(config: EdgeConfig, log: Log, credentials: Credentials | undefined) {
  const ending = new AbortController()
  const nats = createNatsLink(config.GATEHOUSE_NATS_URL, (reason) => {
    if (!reason) return log.info({}, 'connected to NATS')
    log.warn(credentials && isRefusal(reason) ? { hint: invitedAgain } : {}, reason)
  })
  const clock = createClockWatch()
  let receiver: ReturnType<typeof createReceiver> | undefined
  let reporter: ReturnType<typeof createReporter> | undefined

  async function follow({ keys, agent, requests, current, ...counted }: Node): Promise<void> {
    const connection = await connectNats({
      servers: config.GATEHOUSE_NATS_URL,
      name: `gatehouse edge ${config.GATEHOUSE_EDGE_NODE}`,
      caFile: config.GATEHOUSE_NATS_CA_FILE,
      user: config.GATEHOUSE_NATS_USER,
      password: config.GATEHOUSE_NATS_PASSWORD,
      ...(credentials && { credentials: credentials.current }),
      inboxPrefix: inboxOf(config.GATEHOUSE_EDGE_NODE),
      signal: ending.signal,
      link: nats,
    })
    const channels = channelsOf(config.GATEHOUSE_EDGE_CELL, config.GATEHOUSE_EDGE_WAVE)
    const openApi = () => openBucketApi(connection, channels)
    // The node may have received a signal while connecting.
    if (ending.signal.aborted) return connection.close()
    receiver = createReceiver(
      {
        nats: connection,
        channels,
        openApi,
        keys,
        timing: systemTiming,
        onSharedAccount: () => log.warn({ hint: sharedAccount.hint }, sharedAccount.fault),
      },
      agent,
    )
    reporter = createReporter(
      connection,
      channels,
      { ...counted, traffic: requests.trafficCounting.traffic },
      current,
      log,
    )
    requests.seen.connect(connection, channels)
    clock.follow(async () => (await openApi()).streams, channels, ending.signal)
    void credentials?.keepRenewed(connection, ending.signal)
    ending.signal.addEventListener('abort', () => void connection.close())
    const onFailure = ({ message: reason }: Error) => log.warn({ reason }, 'cannot read the NATS bucket; retrying')
    await followForGood({ timing: systemTiming, receiver, place: agent.state, onFailure }, ending.signal)
  }

  return {
    start(node: Node): void {
      follow(node).catch((err) => ending.signal.aborted || log.error({ err }, 'the connection to NATS failed'))
    },
    /** Undefined without a connection, and for a missing piece. */
    fetchBlob: async (name: string) => receiver?.fetchBlob(name),
    /** Undefined without a connection. */
    hasRecord: async (key: RecordKey) => (nats.isConnected() ? receiver?.hasRecord(key) : undefined),
    readAgain: () => receiver?.readAgain(),
    reportSoon: () => reporter?.soon(),
    isConnected: nats.isConnected,
    fault: nats.fault,
    /** Offset of this machine's clock from NATS's, in milliseconds, positive if ahead; undefined if unknown. */
    clockOffset: clock.offset,
    async stop(): Promise<void> {
      await reporter?.stop().catch(() => {})
      receiver?.stop()
      ending.abort()
    },
  }
}
export type Link = ReturnType<typeof createLink>
