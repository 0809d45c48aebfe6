import type { BackendRecord } from '../../distribution/records.ts'
import { parseAddress } from '../../kernel/ip/address.ts'
import { diskFiles, type Files } from '../disk/files.ts'
import type { LookUp } from './dns.ts'
import { createFairQueue } from './fair_queue.ts'
import { createAddressFile, createNames, learn, savedAddresses } from './names.ts'

export type ResolvedBackend = Omit<BackendRecord, 'host'> & {
  /** The address to dial where only one is possible. */
  address: string | null
  /** All addresses. Missing: only `address`. */
  addresses?: readonly string[]
  host: string
}
/** A backend to resolve, and the accounts whose edges and routes use it; none if it is unused. */
export type Wanted = { record: BackendRecord; accounts: readonly string[] }

const tickMs = 1_000
const saveEveryMs = 1_000
const patienceMs = 1_000
/** Changes do not wait for an account for this long after its names were slow. */
const slowForMs = 60_000
const limits = { total: 128, perLane: 16 }
/** Lane of backends that no edge uses yet. All accounts share it, and nothing waits for it. */
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
 * Resolves upstream host names. HAProxy gets addresses only; the agent looks up names, refreshes them, and keeps the
 * addresses through DNS failures, on disk too, so that a node can start without DNS.
 *
 * Each account has its own lane (fair_queue.ts), and silent names are queried less and less often: a tenant with a
 * thousand of them delays only its own upstreams.
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

  /** Queries a name if due. Returns a promise only if the change should wait for the answer. */
  function ask({ record: { host }, accounts }: Wanted): Promise<void> | undefined {
    const name = names.of(host)
    const lanes = accounts.length > 0 ? accounts : [idleLane]
    if (accounts.length > 0) name.lanes.delete(idleLane)
    for (const lane of lanes) name.lanes.add(lane)
    if (name.isAsked && name.failures === 0) return undefined
    // A name that failed before is retried immediately when its record changes, but no change waits for it.
    const asked = queue.add(host, lanes, name.isAsked ? 'other' : 'urgent')
    return !name.isAsked && accounts.some((account) => !slowUntil.has(account)) ? asked : undefined
  }

  const timers = [setInterval(tick, tickMs).unref(), setInterval(() => void addressFile.save(), saveEveryMs).unref()]

  return {
    /**
     * Queries unknown names and waits for them briefly: a new backend should work once it is reported as in force. Does
     * not wait for unused backends, nor for accounts that were slow before.
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
    /** Uses known addresses; `prepare` has sent the queries. */
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
