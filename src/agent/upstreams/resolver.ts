import { readFile } from 'node:fs/promises'
import type { BackendRecord } from '../../distribution/records.ts'
import { parseAddress } from '../../kernel/ip/address.ts'
import { writeAtomically } from '../atomic_file.ts'
import type { LookUp } from './dns.ts'
import { createFairQueue } from './fair_queue.ts'

export type ResolvedBackend = Omit<BackendRecord, 'host'> & { address: string | null; host: string }
/** A backend whose address is wanted, and the accounts whose edges and routes use it: none, while it is only there. */
export type Wanted = { record: BackendRecord; accounts: readonly string[] }

const refreshEveryMs = 15_000
const tickMs = 1_000
const saveEveryMs = 1_000
/** Doubled for each failure in a row, up to these: a name that is said to be absent may come soon, one that is silent costs. */
const longestPauseMs = { absent: 60_000, silent: 300_000 }
/** How long a change may wait for names that are new with it. */
const patienceMs = 1_000
/** Whoever has kept others waiting is not waited for again for this long. */
const slowForMs = 60_000
const limits = { total: 128, perLane: 16 }
/** For backends that no edge uses yet. All accounts share this lane, and nothing waits for it. */
const idleLane = ''

const bare = (host: string): string => host.replace(/^\[|\]$/g, '')

type Name = {
  address: string | null
  /** DNS was asked at least once, or what it said is on disk. */
  isAsked: boolean
  users: Set<string>
  lanes: Set<string>
  failures: number
  askAt: number
}

type Options = {
  file: string
  dns: LookUp
  onChange: (key: string) => void
  onError: (error: Error) => void
}

/**
 * Knows the addresses of upstream host names. HAProxy is given addresses only: what a name means is looked up here,
 * refreshed, and kept through failures of DNS, on disk too, so that a node can start without it.
 *
 * Each account has a lane of its own (fair_queue.ts), and names that do not answer are asked ever more rarely: a tenant
 * with a thousand of them delays its own upstreams only.
 */
export async function openResolver({ file, dns, onChange, onError }: Options) {
  const saved = await savedAddresses(file)
  const names = new Map<string, Name>()
  /** The name that each backend uses. */
  const hosts = new Map<string, string>()
  const slowUntil = new Map<string, number>()
  const queue = createFairQueue(limits, resolveName)
  let unsaved = false

  function nameOf(host: string): Name {
    let name = names.get(host)
    if (!name) {
      const address = saved.get(host) ?? null
      name = { address, isAsked: address !== null, users: new Set(), lanes: new Set(), failures: 0, askAt: 0 }
      names.set(host, name)
    }
    return name
  }

  function forget(key: string): void {
    const host = hosts.get(key)
    if (host === undefined) return
    hosts.delete(key)
    const users = names.get(host)?.users
    if (users?.delete(key) && users.size === 0) names.delete(host)
  }

  async function resolveName(host: string): Promise<void> {
    const name = names.get(host)
    if (!name) return
    name.askAt = Number.POSITIVE_INFINITY
    const answer = await dns.lookUp(host).catch(() => 'silent' as const)
    const failed = typeof answer === 'string'
    name.isAsked = true
    name.failures = failed ? name.failures + 1 : 0
    name.askAt = Date.now() + pauseAfter(failed ? answer : undefined, name.failures)
    const before = name.address
    const addresses = failed ? [] : answer.addresses
    // As long as the old address is among the answers it stays: rotating answers must not move every connection.
    if (before && (addresses.length === 0 || addresses.includes(before))) return
    name.address = addresses[0] ?? null
    if (name.address === before) return
    unsaved = true
    for (const key of name.users) onChange(key)
  }

  function tick(): void {
    const now = Date.now()
    for (const [host, { askAt, lanes }] of names) if (askAt <= now) void queue.add(host, lanes, 'other')
    for (const [lane, until] of slowUntil) if (until <= now) slowUntil.delete(lane)
  }

  async function save(): Promise<void> {
    if (!unsaved) return
    unsaved = false
    const addresses = [...names].filter(([, { address, users }]) => address && users.size > 0)
    const text = JSON.stringify(Object.fromEntries(addresses.map(([host, { address }]) => [host, address])))
    await writeAtomically(file, [text]).catch((error) => {
      unsaved = true
      onError(error)
    })
  }

  const timers = [setInterval(tick, tickMs).unref(), setInterval(() => void save(), saveEveryMs).unref()]

  return {
    /**
     * Asks for names that nothing is known of yet, and waits for them a little: what is new should work when it is said to
     * be in force. Not for what nothing uses, nor for accounts that have kept others waiting.
     */
    async prepare(wanted: Iterable<Wanted>): Promise<void> {
      const waitedFor = new Map<string, { lanes: string[]; asked: Promise<void> }>()
      for (const { record, accounts } of wanted) {
        if (parseAddress(bare(record.host))) continue
        const name = nameOf(record.host)
        const lanes = accounts.length > 0 ? [...accounts] : [idleLane]
        if (accounts.length > 0) name.lanes.delete(idleLane)
        for (const lane of lanes) name.lanes.add(lane)
        if (name.isAsked && name.failures === 0) continue
        // A name that failed before is retried at once when its record changes, but nothing waits for it.
        const asked = queue.add(record.host, lanes, name.isAsked ? 'other' : 'urgent')
        if (!name.isAsked && accounts.some((account) => !slowUntil.has(account)))
          waitedFor.set(record.host, { lanes, asked })
      }
      if (waitedFor.size === 0) return
      const { promise, resolve } = Promise.withResolvers<void>()
      const timer = setTimeout(resolve, patienceMs)
      await Promise.race([Promise.all([...waitedFor.values()].map(({ asked }) => asked)), promise])
      clearTimeout(timer)
      for (const [host, { lanes }] of waitedFor) {
        if (names.get(host)?.isAsked) continue
        for (const lane of lanes) slowUntil.set(lane, Date.now() + slowForMs)
      }
    },
    /** By what is known now; `prepare` has asked. */
    resolve(key: string, record: BackendRecord): ResolvedBackend {
      const { host } = record
      if (hosts.get(key) !== host) forget(key)
      const address = bare(host)
      if (parseAddress(address)) return { ...record, address, host: address }
      hosts.set(key, host)
      const name = nameOf(host)
      name.users.add(key)
      if (name.lanes.size === 0) name.lanes.add(idleLane)
      return { ...record, address: name.address }
    },
    forget,
    /** Names that backends use and that have no address. */
    unresolved: (): number =>
      names.values().reduce((count, { address, users }) => count + (users.size && !address ? 1 : 0), 0),
    async stop(): Promise<void> {
      for (const timer of timers) clearInterval(timer)
      queue.stop()
      dns.stop()
      await save()
    },
  }
}

export type UpstreamResolver = Awaited<ReturnType<typeof openResolver>>

/** A little apart, so that names that came together are not asked together for ever. */
function pauseAfter(failure: 'absent' | 'silent' | undefined, failures: number): number {
  const pause = failure ? Math.min(refreshEveryMs * 2 ** (failures - 1), longestPauseMs[failure]) : refreshEveryMs
  return pause * (0.9 + Math.random() * 0.2)
}

/** What a power cut or a hand left of the file may be nothing; then names are looked up as on the first day. */
async function savedAddresses(file: string): Promise<Map<string, string>> {
  try {
    const saved = Object.entries(JSON.parse(await readFile(file, 'utf8')))
    return new Map(saved.filter((entry): entry is [string, string] => isAddress(entry[1])))
  } catch {
    return new Map()
  }
}

const isAddress = (value: unknown): boolean => typeof value === 'string' && parseAddress(value) !== undefined
