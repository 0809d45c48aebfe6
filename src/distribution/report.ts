import { rfc3339 } from '../kernel/clock.ts'
import {
  type CertificateCounts,
  differenceKinds,
  type EmergencyInForce,
  type NodeDifferences,
  type UncoveredOfAccount,
  type UpstreamStatus,
  upstreamStatuses,
} from '../kernel/edge/edge_nodes.ts'
import { isId } from '../kernel/ids.ts'
import { formatAddress, parseAddress } from '../kernel/ip/address.ts'
import { plainText } from '../kernel/text.ts'
import { parseRfc3339 } from '../kernel/time.ts'
import {
  type AllowedAddress,
  type EdgeHit,
  type HitBatch,
  maxReasonCharacters,
  maxRefusedGenerations,
  type Report,
  type ReportedRuleHits,
  type RuleHitCount,
  type UpstreamHealth,
} from './channels.ts'
import { publicKeyPattern } from './delivery.ts'
import { isOrderId, longestOrderSeconds } from './emergency.ts'
import { readTraffic } from './traffic_report.ts'

const dayMs = 24 * 60 * 60 * 1_000
// A reconnected node sends old counts. Nothing shows counts older than this.
const oldestHitMs = 31 * dayMs
// Clocks differ a little. A time further ahead is invalid.
const maxAheadMs = 60 * 60 * 1_000
// A node sends counts every two seconds. A larger count for one address is invalid.
const maxCount = 1_000_000_000
const maxHits = 20_000
const maxAllowed = 10_000
const maxRuleHits = 5_000
const maxRefusals = 1_000
const maxRefusalCharacters = 1_000
const maxHealth = 1_000
const maxDifferences = 20
const maxEmergencies = 100
// More than fit into the space that a node has for them.
const [maxUncoveredAccounts, maxUncoveredNames] = [1_000, 5_000]

/** `dropped`: number of counts, refusals and upstream states that were out of bounds. */
export type ReadReport = { report: Report; dropped: number }

/**
 * Parses a report, or returns undefined if it is invalid. A node may be broken or stolen, and its data is written
 * together with that of other nodes: one value that PostgreSQL rejects would stop all of them. Everything is therefore
 * bounded here. NATS lets a node write only under its own name; the report must be about that node.
 */
export function readReport(text: string, subject: string, now: number): ReadReport | undefined {
  const sent = parse(text)
  if (!isObject(sent) || !Array.isArray(sent.refusals) || !Array.isArray(sent.hits)) return undefined
  const { node, version, applied, records } = sent
  const startedAt = momentOf(sent.startedAt, 0, now + dayMs)
  if (typeof node !== 'string' || subject.split('.').at(-1) !== node) return undefined
  if (typeof version !== 'string' || !/^[\x20-\x7e]{1,100}$/.test(version)) return undefined
  if (!isCount(applied) || !isCount(records) || startedAt === undefined) return undefined
  const refusals = sent.refusals.slice(-maxRefusals).map(readRefusal).filter(isThere)
  const hits = sent.hits
    .slice(0, maxHits)
    .map((hit) => readHit(hit, now))
    .filter(isThere)
  const sentHealth = Array.isArray(sent.health) ? sent.health : []
  const health = sentHealth
    .slice(0, maxHealth)
    .map((each) => readHealth(each, now))
    .filter(isThere)
  const sentAllowed = Array.isArray(sent.allowed) ? sent.allowed : []
  const allowed = sentAllowed
    .slice(0, maxAllowed)
    .map((each) => readAllowed(each, now))
    .filter(isThere)
  const hitBatch = readBatch(sent.hitBatch)
  const ruleHits = readRuleHits(sent.ruleHits, now)
  const traffic = readTraffic(sent.traffic, now)
  return {
    report: {
      node,
      version,
      applied,
      records,
      startedAt: rfc3339(startedAt),
      refusals,
      hits,
      ...(hitBatch && { hitBatch }),
      health,
      ...(allowed.length > 0 && { allowed }),
      ...readRefused(sent.refused),
      ...(typeof sent.storageFault === 'string' && { storageFault: plainText(sent.storageFault, maxReasonCharacters) }),
      ...readDifferences(sent.differences, now),
      ...(isCount(sent.proxyLosses) && { proxyLosses: sent.proxyLosses }),
      ...readEmergencies(sent.emergencies, now),
      ...(isCount(sent.shutLimits) && { shutLimits: sent.shutLimits }),
      ...readUpstreams(sent.upstreams),
      ...(sent.countsRules === true && { countsRules: true }),
      ...(ruleHits && { ruleHits: ruleHits.read }),
      ...(sent.countsTraffic === true && { countsTraffic: true }),
      ...(traffic && { traffic: traffic.read }),
      ...readCertificates(sent, now),
    },
    dropped:
      sent.refusals.length -
      refusals.length +
      (sent.hits.length - hits.length) +
      (sentHealth.length - health.length) +
      (sentAllowed.length - allowed.length) +
      (ruleHits?.dropped ?? 0) +
      (traffic?.dropped ?? 0),
  }
}

function readBatch(sent: unknown): HitBatch | undefined {
  if (!isObject(sent) || !isCount(sent.batch)) return undefined
  const { sender, batch } = sent
  if (typeof sender !== 'string' || !/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(sender)) return undefined
  return { sender, batch }
}

function readRuleHits(sent: unknown, now: number): { read: ReportedRuleHits; dropped: number } | undefined {
  const batch = readBatch(sent)
  if (!batch || !isObject(sent) || !Array.isArray(sent.hits)) return undefined
  const hits = sent.hits
    .slice(0, maxRuleHits)
    .map((hit) => readRuleHit(hit, now))
    .filter(isThere)
  return { read: { ...batch, hits }, dropped: sent.hits.length - hits.length }
}

function readRuleHit(sent: unknown, now: number): RuleHitCount | undefined {
  if (!isObject(sent)) return undefined
  const { account, rule, day, allowed, refused, warned, lastAt } = sent
  if (typeof account !== 'string' || !isId('ac', account)) return undefined
  if (typeof rule !== 'string' || !isId('ipr', rule)) return undefined
  if (!isCount(day) || day % dayMs !== 0 || day < now - oldestHitMs - dayMs || day > now + maxAheadMs) return undefined
  if (!isCount(lastAt) || lastAt < now - oldestHitMs || lastAt > now + maxAheadMs) return undefined
  if (!isHitCount(allowed) || !isHitCount(refused) || !isHitCount(warned)) return undefined
  return { account, rule, day, allowed, refused, warned, lastAt: Math.min(lastAt, now) }
}

function readRefused(sent: unknown): Pick<Report, 'refused'> {
  if (!isObject(sent) || !Array.isArray(sent.generations) || sent.generations.length > maxRefusedGenerations) return {}
  const { records, lowest } = sent
  const generations = sent.generations.filter(isCount).sort((a, b) => a - b)
  return isCount(records) && (lowest === null || isCount(lowest)) ? { refused: { records, lowest, generations } } : {}
}

/** Treats an unreadable value as a difference from now on: a node that reports nonsense is not known to be correct. */
function readDifferences(sent: unknown, now: number): Pick<Report, 'differences'> {
  if (!isObject(sent)) return {}
  const { found, latest } = sent
  const [since, agreedAt] = [sent.since, sent.agreedAt].map((at) => momentOf(at, 0, now + maxAheadMs))
  const hasNone = sent.since === null
  return {
    differences: {
      found: isCount(found) ? found : 0,
      since: hasNone && isCount(found) ? null : rfc3339(Math.min(since ?? now, now)),
      agreedAt: agreedAt === undefined ? null : rfc3339(Math.min(agreedAt, now)),
      latest: Array.isArray(latest)
        ? latest
            .slice(-maxDifferences)
            .map((each) => readDifference(each, now))
            .filter(isThere)
        : [],
    },
  }
}

function readDifference(sent: unknown, now: number): NodeDifferences['latest'][number] | undefined {
  if (!isObject(sent)) return undefined
  const { what, name } = sent
  const kind = differenceKinds.find((each) => each === sent.kind)
  const at = momentOf(sent.at, 0, now + maxAheadMs)
  if (typeof what !== 'string' || typeof name !== 'string' || !kind || at === undefined) return undefined
  return { what: plainText(what, 50), name: plainText(name, maxReasonCharacters), kind, at: rfc3339(at) }
}

function readEmergencies(sent: unknown, now: number): Pick<Report, 'emergencies'> {
  if (!Array.isArray(sent)) return {}
  return {
    emergencies: sent
      .slice(0, maxEmergencies)
      .map((each) => readEmergency(each, now))
      .filter(isThere),
  }
}

function readEmergency(sent: unknown, now: number): EmergencyInForce | undefined {
  if (!isObject(sent)) return undefined
  const { id, ranges, reason } = sent
  const expiresAt = momentOf(sent.expiresAt, 0, now + longestOrderSeconds * 1_000 + maxAheadMs)
  if (typeof id !== 'string' || !isOrderId(id) || !isCount(ranges) || expiresAt === undefined) return undefined
  return {
    id,
    ranges,
    reason: typeof reason === 'string' ? plainText(reason, maxReasonCharacters) : '',
    expiresAt: rfc3339(expiresAt),
  }
}

function readUpstreams(sent: unknown): Pick<Report, 'upstreams'> {
  if (!isObject(sent)) return {}
  const { up, down, failing } = sent
  return isCount(up) && isCount(down) && isCount(failing) ? { upstreams: { up, down, failing } } : {}
}

function readCertificates({ nodeKey, certificates }: Record<string, unknown>, now: number): Partial<Report> {
  const counts = isObject(certificates) ? certificates : {}
  const { names, waiting, missing } = counts
  const firstExpiry = momentOf(counts.firstExpiry, 0, now + 100 * 366 * dayMs)
  return {
    ...(typeof nodeKey === 'string' && new RegExp(publicKeyPattern).test(nodeKey) && { nodeKey }),
    ...(isCount(names) &&
      isCount(waiting) && {
        certificates: {
          names,
          waiting,
          firstExpiry: firstExpiry === undefined ? null : rfc3339(firstExpiry),
          ...(isCount(missing) && { missing }),
          ...readUncovered(counts.uncovered),
        },
      }),
  }
}

const hostName = /^[\x21-\x7e]{1,255}$/

/** Accounts see this about their own names. If the report lists an account twice, or too many, none is used. */
function readUncovered(sent: unknown): Pick<CertificateCounts, 'uncovered'> {
  if (!isObject(sent) || !Array.isArray(sent.accounts) || sent.accounts.length > maxUncoveredAccounts) return {}
  const accounts = sent.accounts.map(readUncoveredOfAccount).filter(isThere)
  const distinct = new Set(accounts.map(({ account }) => account))
  if (accounts.length < sent.accounts.length || distinct.size < accounts.length) return {}
  return { uncovered: { accounts, isCut: sent.isCut !== false } }
}

function readUncoveredOfAccount(sent: unknown): UncoveredOfAccount | undefined {
  if (!isObject(sent) || !Array.isArray(sent.names) || sent.names.length > maxUncoveredNames) return undefined
  const { account, count, names } = sent
  if (typeof account !== 'string' || !isId('ac', account) || !isCount(count) || count < sent.names.length)
    return undefined
  if (!sent.names.every((name) => typeof name === 'string' && hostName.test(name))) return undefined
  return { account, count, names: names as string[] }
}

/** Shown to tenants: plain characters only, so that a reason cannot imitate other output. */
const plainReason = new RegExp(`^[\\x20-\\x7e]{1,${maxReasonCharacters}}$`)

function readHealth(sent: unknown, now: number): UpstreamHealth | undefined {
  if (!isObject(sent)) return undefined
  const { backend, port, status, reason, lastFailedAt } = sent
  const address = typeof sent.address === 'string' ? parseAddress(sent.address) : undefined
  const since = momentOf(sent.since, 0, now + maxAheadMs)
  const failedAt = lastFailedAt === undefined ? undefined : momentOf(lastFailedAt, 0, now + maxAheadMs)
  if (typeof backend !== 'string' || !isId('bkdst', backend) || !address || since === undefined) return undefined
  if (!isCount(port) || port < 1 || port > 65_535) return undefined
  if (status !== 'cleared' && !isStatus(status)) return undefined
  if (reason !== null && (typeof reason !== 'string' || !plainReason.test(reason))) return undefined
  if (lastFailedAt !== undefined && failedAt === undefined) return undefined
  return {
    backend,
    address: formatAddress(address),
    port,
    status,
    reason,
    since: rfc3339(Math.min(since, now)),
    ...(failedAt !== undefined && { lastFailedAt: rfc3339(Math.min(failedAt, now)) }),
  }
}

function readRefusal(sent: unknown): Report['refusals'][number] | undefined {
  if (!isObject(sent)) return undefined
  const { key, generation, reason } = sent
  const at = momentOf(sent.at, 0, Number.POSITIVE_INFINITY)
  if (typeof key !== 'string' || key.length > 500 || typeof reason !== 'string' || at === undefined) return undefined
  if (generation !== null && !isCount(generation)) return undefined
  return { key, generation, reason: reason.slice(0, maxRefusalCharacters), at: rfc3339(at) }
}

function readHit(sent: unknown, now: number): EdgeHit | undefined {
  if (!isObject(sent)) return undefined
  const { restriction, target, source, outcome, count } = sent
  const address = typeof source === 'string' ? parseAddress(source) : undefined
  const at = momentOf(sent.lastAt, now - oldestHitMs, now + maxAheadMs)
  if (!address || at === undefined || (outcome !== 'refused' && outcome !== 'warned')) return undefined
  if (!isCount(count) || count === 0 || count > maxCount) return undefined
  if (restriction !== null && typeof restriction !== 'string') return undefined
  if (target !== undefined && typeof target !== 'string') return undefined
  const lastAt = rfc3339(Math.min(at, now))
  return {
    restriction,
    ...(target !== undefined && { target }),
    source: formatAddress(address),
    outcome,
    count,
    lastAt,
  }
}

function readAllowed(sent: unknown, now: number): AllowedAddress | undefined {
  if (!isObject(sent)) return undefined
  const { target, source } = sent
  const address = typeof source === 'string' ? parseAddress(source) : undefined
  const at = momentOf(sent.lastAt, now - oldestHitMs, now + maxAheadMs)
  if (!address || at === undefined || typeof target !== 'string') return undefined
  return { target, source: formatAddress(address), lastAt: rfc3339(Math.min(at, now)) }
}

function momentOf(sent: unknown, earliest: number, latest: number): number | undefined {
  const at = typeof sent === 'string' ? parseRfc3339(sent) : undefined
  return at !== undefined && at >= earliest && at <= latest ? at : undefined
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null
const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0
const isHitCount = (value: unknown): value is number => isCount(value) && value <= maxCount
const isStatus = (value: unknown): value is UpstreamStatus => upstreamStatuses.some((status) => status === value)
const isThere = <Value>(value: Value | undefined): value is Value => value !== undefined
