import { createHash } from 'node:crypto'
import { healthCheckLimits } from '../../../kernel/edge/health_check.ts'
import { plainPath } from '../config/rules.ts'
import { limitsOf, type ProxySettings } from '../settings.ts'
import { type Mode, type Section, sectionName } from './sections.ts'
import type { Group, Upstream } from './upstream.ts'

export type Server = {
  /** `<static backend>.<number>`: checks look up their path by it, and reports the backend. */
  readonly name: string
  readonly address: string
  readonly port: number
  readonly options: string
}

/**
 * A backend of HAProxy. It is immutable: its name contains a digest of its content, and a changed backend gets another
 * name. The name therefore identifies the servers, and no request can meet a half-changed backend.
 */
export type Definition = {
  readonly name: string
  readonly id: string
  readonly mode: Mode
  readonly account: string
  readonly section: string
  readonly servers: readonly Server[]
  readonly checksPerSecond: number
}

export const nativeName = /^(bkd(?:st|wd|fo)_[0-9a-z]+)\.(http|tcp)\.[0-9a-f]{12}$/

/**
 * For upstreams without a check of their own, in a group or with several addresses: a dead server would go unnoticed.
 */
const defaultCheck = {
  type: 'tcp',
  interval_seconds: healthCheckLimits.interval_seconds.default,
  healthy_after: healthCheckLimits.healthy_after.default,
  unhealthy_after: healthCheckLimits.unhealthy_after.default,
} as const

const maxWeight = 256

/** Undefined if the backend has no server. */
export function definitionOf(
  settings: ProxySettings,
  { id, mode, account }: { id: string; mode: Mode; account: string },
  { kind, members }: Pick<Group, 'kind' | 'members'>,
  upstreamOf: (id: string) => Upstream | undefined,
): Definition | undefined {
  const known = members.flatMap(([member, weight], position) => {
    const upstream = upstreamOf(member)
    return upstream ? [{ member, weight, upstream, isFirst: position === 0 }] : []
  })
  const largest = Math.max(...known.map(({ weight, upstream }) => weight / upstream.addresses.length))
  let checksPerSecond = 0
  const servers = known.flatMap(({ member, weight, upstream, isFirst }) => {
    const role =
      kind === 'weighted'
        ? [`weight ${scaled(weight / upstream.addresses.length, largest)}`]
        : isFirst
          ? []
          : ['backup']
    const options = [...role, ...optionsOf(settings, mode, upstream)].join(' ')
    checksPerSecond += upstream.addresses.length / transitionSeconds((upstream.check ?? defaultCheck).interval_seconds)
    return upstream.addresses.map(
      (address, index): Server => ({ name: `${member}.${index + 1}`, address, port: upstream.port, options }),
    )
  })
  if (servers.length === 0) return undefined
  const isHttp2 = mode === 'http' && known.some(({ upstream }) => upstream.isHttp2)
  const section = sectionName({ mode, balance: kind === 'weighted' ? 'weights' : 'least', isHttp2 } satisfies Section)
  const digest = createHash('sha256')
    .update(JSON.stringify([section, servers]))
    .digest('hex')
    .slice(0, 12)
  return { name: `${id}.${mode}.${digest}`, id, mode, account, section, servers, checksPerSecond }
}

/** A member's addresses share its weight. A server that is not drained keeps at least the smallest weight. */
const scaled = (share: number, largest: number): number =>
  share === 0 ? 0 : Math.max(1, Math.round((share / largest) * maxWeight))

/**
 * HAProxy checks a server more often while its state seems to change, so that a recovery takes effect within one
 * interval.
 */
const transitionSeconds = (interval: number): number => Math.max(1, Math.round(interval / 5))

function optionsOf(settings: ProxySettings, mode: Mode, upstream: Upstream): string[] {
  const { isTls, host, isHttp2 } = upstream
  const tls = isTls ? [`ssl verify required ca-file ${plainPath(settings.caFile)} sni str(${host}) no-ssl-reuse`] : []
  const http2 = mode === 'http' && isHttp2 ? [`proto h2${isTls ? ' alpn h2' : ''}`] : []
  const proxy = mode === 'tcp' && upstream.sendsProxy ? ['send-proxy-v2'] : []
  // Connections of the same pool name are shared: see `sections.ts`.
  const pool = mode === 'http' ? ['pool-conn-name var(txn.pool)'] : []
  return [...tls, ...http2, ...proxy, ...pool, ...boundsOf(settings), ...checkOf(mode, upstream)]
}

/** Half of the edge's limit, so that one slow server cannot hold all connections of its edge, with a short queue. */
function boundsOf(settings: ProxySettings): string[] {
  const maxconn = Math.max(1, Math.ceil(limitsOf(settings).perEdge / 2))
  return [`maxconn ${maxconn} maxqueue ${Math.max(1, Math.ceil(maxconn / 4))}`]
}

/**
 * `on-error`: a server that refuses client connections goes down without waiting for the next check. `check-ssl` is
 * explicit, because checks of servers added at run time fail without it.
 */
function checkOf(mode: Mode, { check = defaultCheck, ...upstream }: Upstream): string[] {
  const { type, interval_seconds: interval, healthy_after: rise, unhealthy_after: fall } = check
  const http2 = type === 'http' && upstream.isHttp2 ? ['check-proto h2'] : []
  const tls = upstream.isTls ? [`check-ssl check-sni ${upstream.host}${http2.length > 0 ? ' check-alpn h2' : ''}`] : []
  const proxy = mode === 'tcp' && upstream.sendsProxy ? ['check-send-proxy'] : []
  return [
    `check healthcheck ${type} inter ${interval}s fastinter ${transitionSeconds(interval)}s rise ${rise} fall ${fall}`,
    'observe layer4 error-limit 5 on-error mark-down',
    ...tls,
    ...http2,
    ...proxy,
  ]
}
