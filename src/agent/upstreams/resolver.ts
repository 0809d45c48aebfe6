import type { BackendRecord } from '../../distribution/records.ts'
import { parseAddress } from '../../kernel/ip/address.ts'
import { diskFiles, type Files } from '../disk/files.ts'
import type { LookUp } from './dns.ts'
import { createFairQueue } from './fair_queue.ts'
import { createAddressFile, createNames, learn, savedAddresses } from './names.ts'

export type ResolvedBackend = Omit<BackendRecord, 'host'> & {
  /** The one that is dialed where only one is. */
  address: string | null
  /** All of them. Missing: `address` is the only one. */
  addresses?: readonly string[]
  host: string
}
/** A backend whose address is wanted, and the accounts whose edges and routes use it: none, while it is only there. */
export type Wanted = { record: BackendRecord; accounts: readonly string[] }

const tickMs = 1_000
const saveEveryMs = 1_000
/** How long a change may wait for names that are new with it. */
const patienceMs = 1_000
/** Accounts whose names kept a change waiting are not waited for during this time. */
const slowForMs = 60_000
const limits = { total: 128, perLane: 16 }
/** For backends that no edge uses yet. All accounts share this lane, and nothing waits for it. */
const idleLane = ''

const bare = (host: string): string => host.replace(/^\[|\]$/g, '')

type Options = {
  file: string
  dns: LookUp
  onChange: (key: string) => void
  onError: (error: Error) => void
  files?: Files
}

/**
 * Knows the addresses of upstream host names. HAProxy is given addresses only: what a name means is looked up here,
 * refreshed, and kept through failures of DNS, on disk too, so that a node can start without it.
 *
 * Each account has a lane of its own (fair_queue.ts), and names that do not answer are asked ever more rarely: a tenant
 * with a thousand of them delays its own upstreams only.
 */
export async function openResolver({ file, dns, onChange, onError, files = diskFiles }: Options) {
  const names = createNames(await savedAddresses(files, file))
  const slowUntil = new Map<string, number>()
  const queue = createFairQueue(limits, resolveName)
  const addressFile = createAddressFile(files, file, names.all(), onError)

  async function resolveName(host: string): Promise<void> {
    const name = names.get(host)
    if (!name) return
    name.askAt = Number.POSITIVE_INFINITY
    const isOther = learn(name, await dns.lookUp(host).catch(() => 'silent' as const))
    if (!isOther) return
    addressFile.outdate()
    for (const key of name.users) onChange(key)
  }

  function tick(): void {
    const now = Date.now()
    for (const [host, { askAt, lanes }] of names.all()) if (askAt <= now) void queue.add(host, lanes, 'other')
    for (const [lane, until] of slowUntil) if (until <= now) slowUntil.delete(lane)
  }

  /** Asks for a name when that is due. Resolves when it was asked, for those who should wait for it. */
  function ask({ record: { host }, accounts }: Wanted): Promise<void> | undefined {
    const name = names.of(host)
    const lanes = accounts.length > 0 ? accounts : [idleLane]
    if (accounts.length > 0) name.lanes.delete(idleLane)
    for (const lane of lanes) name.lanes.add(lane)
    if (name.isAsked && name.failures === 0) return undefined
    // A name that failed before is retried at once when its record changes, but nothing waits for it.
    const asked = queue.add(host, lanes, name.isAsked ? 'other' : 'urgent')
    return !name.isAsked && accounts.some((account) => !slowUntil.has(account)) ? asked : undefined
  }

  const timers = [setInterval(tick, tickMs).unref(), setInterval(() => void addressFile.save(), saveEveryMs).unref()]

  return {
    /**
     * Asks for names that nothing is known of yet, and waits for them a little: what is new should work when it is said to
     * be in force. Not for what nothing uses, nor for accounts that have kept others waiting.
     */
    async prepare(wanted: Iterable<Wanted>): Promise<void> {
      const waitedFor: { wanted: Wanted; asked: Promise<void> }[] = []
      for (const each of wanted) {
        if (parseAddress(bare(each.record.host))) continue
        const asked = ask(each)
        if (asked) waitedFor.push({ wanted: each, asked })
      }
      if (waitedFor.length === 0) return
      await atMost(
        patienceMs,
        waitedFor.map(({ asked }) => asked),
      )
      for (const { wanted: late } of waitedFor) {
        if (names.get(late.record.host)?.isAsked) continue
        for (const account of late.accounts) slowUntil.set(account, Date.now() + slowForMs)
      }
    },
    /** From what is known now; `prepare` has sent the queries. */
    resolve(key: string, record: BackendRecord): ResolvedBackend {
      const { host } = record
      const address = bare(host)
      if (parseAddress(address)) {
        names.forget(key)
        return { ...record, address, host: address }
      }
      const name = names.use(key, host)
      if (name.lanes.size === 0) name.lanes.add(idleLane)
      return { ...record, address: name.addresses[0] ?? null, addresses: name.addresses }
    },
    forget: names.forget,
    unresolved: names.unresolved,
    async stop(): Promise<void> {
      for (const timer of timers) clearInterval(timer)
      queue.stop()
      dns.stop()
      await addressFile.save()
    },
  }
}

export type UpstreamResolver = Awaited<ReturnType<typeof openResolver>>

async function atMost(ms: number, all: readonly Promise<void>[]): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, ms)
  await Promise.race([Promise.all(all), promise])
  clearTimeout(timer)
}
