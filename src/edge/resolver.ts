import { lookup } from 'node:dns/promises'
import { readFile } from 'node:fs/promises'
import type { BackendRecord } from '../distribution/records.ts'
import { parseAddress } from '../kernel/ip/address.ts'
import { writeDurably } from './durably.ts'

export type ResolvedBackend = { address: string | null; port: number; tls: boolean; host: string }

const refreshEveryMs = 15_000
const patienceMs = 2_000
const saveEveryMs = 1_000
/** A look-up keeps one of the four threads that also write files: with DNS down, more would hold up the agent itself. */
const lookupsAtOnce = 2

const bare = (host: string): string => host.replace(/^\[|\]$/g, '')

/**
 * Knows the addresses of upstream host names. HAProxy is given addresses only: what a name means is looked up here,
 * refreshed, and kept through failures of DNS, on disk too, so that a node can start without it.
 */
export async function openResolver(file: string, onChange: (key: string) => void, onError: (error: Error) => void) {
  const known = new Map<string, string | null>(Object.entries(await savedAddresses(file)))
  const users = new Map<string, Set<string>>()
  const underWay = new Map<string, Promise<void>>()
  const waiting: (() => void)[] = []
  let running = 0
  let unsaved = false
  let stopped = false

  function lookUp(host: string): Promise<void> {
    const started = underWay.get(host)
    if (started) return started
    const mine = inTurn(() => resolveName(host)).finally(() => underWay.delete(host))
    underWay.set(host, mine)
    return mine
  }

  async function inTurn(work: () => Promise<void>): Promise<void> {
    // Whoever ends hands its place on, or gives it back.
    if (running < lookupsAtOnce) running++
    else await new Promise<void>((resolve) => waiting.push(resolve))
    try {
      if (!stopped) await work()
    } finally {
      const next = waiting.shift()
      if (next) next()
      else running--
    }
  }

  async function resolveName(host: string): Promise<void> {
    const found = await lookup(host, { all: true, verbatim: true }).catch(() => undefined)
    const addresses = found?.map(({ address }) => address) ?? []
    const before = known.get(host)
    // As long as the old address is among the answers it stays: rotating answers must not move every connection.
    if (before && (addresses.length === 0 || addresses.includes(before))) return
    const now = addresses[0] ?? null
    known.set(host, now)
    if (now === before) return
    unsaved = true
    if (before !== undefined) for (const key of users.get(host) ?? []) onChange(key)
  }

  async function save(): Promise<void> {
    if (!unsaved) return
    unsaved = false
    const addresses = Object.fromEntries([...known].filter(([host, address]) => address && users.has(host)))
    await writeDurably(file, [JSON.stringify(addresses)]).catch((error) => {
      unsaved = true
      onError(error)
    })
  }

  const timers = [
    setInterval(() => users.keys().forEach((host) => void lookUp(host)), refreshEveryMs).unref(),
    setInterval(() => void save(), saveEveryMs).unref(),
  ]

  return {
    /** Looks up all names at once that nothing is known of yet: one after another, each would take its own patience. */
    async prepare(backends: Iterable<BackendRecord>): Promise<void> {
      const names = new Set([...backends].map(({ host }) => host).filter((host) => !parseAddress(bare(host))))
      const unknown = [...names].filter((host) => !known.has(host))
      if (unknown.length === 0) return
      const patience = new Promise((resolve) => setTimeout(resolve, patienceMs).unref())
      await Promise.race([Promise.all(unknown.map(lookUp)), patience])
      // An answer that comes later is then another one than was given, and is told.
      for (const host of unknown) if (!known.has(host)) known.set(host, null)
    },
    /** By what is known now; `prepare` has asked. */
    resolve(key: string, { host, port, tls }: BackendRecord): ResolvedBackend {
      const address = bare(host)
      if (parseAddress(address)) return { address, port, tls, host: address }
      users.set(host, (users.get(host) ?? new Set()).add(key))
      return { address: known.get(host) ?? null, port, tls, host }
    },
    forget(key: string): void {
      for (const [host, keys] of users) if (keys.delete(key) && keys.size === 0) users.delete(host)
    },
    async stop(): Promise<void> {
      stopped = true
      for (const timer of timers) clearInterval(timer)
      await save()
    },
  }
}

export type Resolver = Awaited<ReturnType<typeof openResolver>>

/** What a power cut or a hand left of the file may be nothing; then names are looked up as on the first day. */
async function savedAddresses(file: string): Promise<Record<string, string>> {
  try {
    const saved = Object.entries(JSON.parse(await readFile(file, 'utf8')))
    return Object.fromEntries(saved.filter((entry): entry is [string, string] => isAddress(entry[1])))
  } catch {
    return {}
  }
}

const isAddress = (value: unknown): boolean => typeof value === 'string' && parseAddress(value) !== undefined
