import type { BackendRecord } from '../../../distribution/records.ts'
import { backendValue } from '../maps/codec.ts'

/** Last part of a backend that receives the PROXY protocol from TCP edges. */
export const sendsProxy = 'proxy'

/** Suffix of the first part of a backend that is reached over HTTP/2. */
export const toHttp2 = '-h2'

type Check = NonNullable<BackendRecord['health_check']>

export type Upstream = {
  readonly isTls: boolean
  readonly isHttp2: boolean
  readonly addresses: readonly string[]
  readonly port: number
  /** The name that the server's certificate must have; '-' without TLS. */
  readonly host: string
  readonly sendsProxy: boolean
  readonly check: Omit<Check, 'path'> | undefined
}

/** Same format as the map `backend`, but with any number of addresses and a check, so that one parser reads both. */
export function formatUpstream({ addresses, port, host, check, ...upstream }: Upstream): string {
  return backendValue.format({
    protocol: `${upstream.isTls ? 'tls' : 'plain'}${upstream.isHttp2 ? toHttp2 : ''}`,
    address: addresses.join(','),
    port,
    host,
    proxy: upstream.sendsProxy ? sendsProxy : '-',
    check: check ? [check.type, check.interval_seconds, check.healthy_after, check.unhealthy_after].join(',') : '-',
  })
}

export function parseUpstream(value: string): Upstream {
  const { protocol = '', address = '', port, host = '-', proxy, check = '-' } = backendValue.parse(value)
  const [type, interval, healthy, unhealthy] = check.split(',')
  return {
    isTls: protocol.startsWith('tls'),
    isHttp2: protocol.endsWith(toHttp2),
    addresses: address.split(','),
    port: Number(port),
    host,
    sendsProxy: proxy === sendsProxy,
    check:
      check === '-'
        ? undefined
        : {
            type: type === 'http' ? 'http' : 'tcp',
            interval_seconds: Number(interval),
            healthy_after: Number(healthy),
            unhealthy_after: Number(unhealthy),
          },
  }
}

/** Several static backends as one: the value of the part `group` for a weighted or failover backend. */
export type Group = {
  readonly kind: 'weighted' | 'failover'
  readonly account: string
  /** Ids of static backends. For a failover backend they are in order, all with weight 1. */
  readonly members: readonly (readonly [id: string, weight: number])[]
}

/** `weighted|account|id=weight,id=weight` */
export const formatGroup = ({ kind, account, members }: Group): string =>
  [kind, account, members.map(([id, weight]) => `${id}=${weight}`).join(',')].join('|')

export function parseGroup(value: string): Group {
  const [kind, account = '', members = ''] = value.split('|')
  return {
    kind: kind === 'weighted' ? 'weighted' : 'failover',
    account,
    members: members.split(',').flatMap((member): [string, number][] => {
      const [id = '', weight] = member.split('=')
      return id === '' ? [] : [[id, Number(weight)]]
    }),
  }
}
