import { lookup } from 'node:dns/promises'
import type { BackendRecord } from '../distribution/records.ts'
import { parseAddress } from '../kernel/ip/address.ts'

export type ResolvedBackend = { address: string | null; port: number; tls: boolean; host: string }

const refreshEveryMs = 15_000
const patienceMs = 2_000

/**
 * Knows the addresses of upstream host names. HAProxy is given addresses only: what a name means is looked up here, kept
 * through failures of DNS, and refreshed.
 */
export function createResolver(onChange: (key: string) => void) {
  const known = new Map<string, string | null>()
  const users = new Map<string, Set<string>>()

  async function resolveName(host: string): Promise<void> {
    const found = await lookup(host, { all: true, verbatim: true }).catch(() => undefined)
    const addresses = found?.map(({ address }) => address) ?? []
    const before = known.get(host)
    // As long as the old address is among the answers it stays: rotating answers must not move every connection.
    if (before && (addresses.length === 0 || addresses.includes(before))) return
    known.set(host, addresses[0] ?? null)
    if (before !== undefined && before !== addresses[0]) for (const key of users.get(host) ?? []) onChange(key)
  }

  const timer = setInterval(() => {
    for (const host of users.keys()) void resolveName(host)
  }, refreshEveryMs)
  timer.unref()

  return {
    async resolve(key: string, { host, port, tls }: BackendRecord): Promise<ResolvedBackend> {
      const bare = host.replace(/^\[|\]$/g, '')
      if (parseAddress(bare)) return { address: bare, port, tls, host: bare }
      const keys = users.get(host) ?? new Set()
      users.set(host, keys.add(key))
      if (!known.has(host))
        await Promise.race([resolveName(host), new Promise((resolve) => setTimeout(resolve, patienceMs).unref())])
      // An answer that comes later is then another one than was given, and is told.
      if (!known.has(host)) known.set(host, null)
      // Told 'no address' for now: the answer that comes later is then a change.
      if (!known.has(host)) known.set(host, null)
      return { address: known.get(host) ?? null, port, tls, host }
    },
    forget(key: string): void {
      for (const [host, keys] of users) if (keys.delete(key) && keys.size === 0) users.delete(host)
    },
    stop: () => clearInterval(timer),
  }
}

export type Resolver = ReturnType<typeof createResolver>
