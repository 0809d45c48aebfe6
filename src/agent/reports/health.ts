import { maxReasonCharacters, type UpstreamHealth } from '../../distribution/channels.ts'
import { rfc3339 } from '../../kernel/clock.ts'
import type { UpstreamStatus } from '../../kernel/edge/edge_nodes.ts'
import { plainText } from '../../kernel/text.ts'

/** Observed state of one address of a backend. `failing` is for addresses without a check, after a failed request. */
export type Observation = {
  readonly backend: string
  readonly address: string
  readonly port: number
  readonly status: UpstreamStatus
  /** In plain words, for the owner of the backend. */
  readonly reason: string | null
  readonly at: number
  /** The account of the backend, so that one account cannot displace observations of another. */
  readonly account?: string
}

type Entry = {
  backend: string
  address: string
  port: number
  account: string
  status: UpstreamHealth['status']
  reason: string | null
  since: number
  lastAt: number
  sentAt: number
}

/** Without a check there is no retry, so a failure ends after a time without further failures. */
const failingForMs = 5 * 60_000
/** Reports are not acknowledged. A cleared entry is therefore repeated before it is removed. */
const clearedForMs = 3 * 60_000
const repeatMs = 60_000
/** With the maximum of entries, everything is repeated within seven minutes. */
const maxRepeats = 200
const maxChanges = 300
const maxEntries = 40_000

/** State of this node's upstreams, by address, as reported to the control plane. */
export function createHealth({ limit = maxEntries }: { limit?: number } = {}) {
  const changed = new Set<string>()
  const { entries, keysOf, add, remove } = createEntries(limit, (key) => changed.delete(key))

  function clear(key: string, entry: Entry, at: number): void {
    Object.assign(entry, { status: 'cleared', reason: null, since: at, lastAt: at })
    changed.add(key)
  }

  function endWhatIsOver(now: number): void {
    for (const [key, entry] of entries) {
      if (entry.status === 'failing' && now - entry.lastAt >= failingForMs) clear(key, entry, now)
      else if (entry.status === 'cleared' && now - entry.since >= clearedForMs) remove(key, entry)
    }
  }

  /** Changed entries first, then those that were sent least recently. */
  function* keysToSend(now: number): Generator<string> {
    const lanes = Map.groupBy(changed, (key) => entries.get(key)?.account)
    yield* inTurns(lanes, maxChanges)
    yield* due(entries, now)
      .filter((key) => !changed.has(key))
      .take(maxRepeats)
  }

  return {
    observe({ backend, address, port, status, at, account = '', ...seen }: Observation): void {
      const reason = seen.reason && plainText(seen.reason, maxReasonCharacters)
      const key = keyOf({ backend, address, port })
      const known = entries.get(key)
      if (!known) {
        add(key, { backend, address, port, account, status, reason, since: at, lastAt: at, sentAt: 0 })
        changed.add(key)
        return
      }
      known.lastAt = at
      if (known.status === status && known.reason === reason) return
      if (known.status !== status) known.since = at
      known.status = status
      known.reason = reason
      changed.add(key)
    },

    /** The backend is gone or has changed: earlier observations no longer count. */
    forget(backend: string, at: number): void {
      for (const key of keysOf(backend)) {
        const entry = entries.get(key)
        if (entry && entry.status !== 'cleared') clear(key, entry, at)
      }
    },

    /** Entries for a report. Call `giveBack` with those that were not delivered. */
    take(now: number): UpstreamHealth[] {
      endWhatIsOver(now)
      const health: UpstreamHealth[] = []
      for (const key of [...keysToSend(now)]) {
        const entry = entries.get(key)
        if (!entry) continue
        changed.delete(key)
        entry.sentAt = now
        entries.delete(key)
        entries.set(key, entry)
        health.push(sent(entry))
      }
      return health
    },
    giveBack(health: readonly UpstreamHealth[]): void {
      for (const upstream of health) if (entries.has(keyOf(upstream))) changed.add(keyOf(upstream))
    },

    counts(): Record<UpstreamStatus, number> {
      const counts = { up: 0, down: 0, failing: 0 }
      for (const { status } of entries.values()) if (status !== 'cleared') counts[status]++
      return counts
    },
    all: (): Iterable<UpstreamHealth> => entries.values().map(sent),
  }
}

const keyOf = ({ backend, address, port }: Pick<UpstreamHealth, 'backend' | 'address' | 'port'>): string =>
  `${backend} ${address} ${port}`

export type Health = ReturnType<typeof createHealth>

function* due(entries: ReadonlyMap<string, Entry>, now: number): Generator<string> {
  for (const [key, { sentAt }] of entries) {
    if (now - sentAt < repeatMs) return
    yield key
  }
}

/** A bounded table of observations, in the order in which they were last sent. */
function createEntries(limit: number, onRemoved: (key: string) => void) {
  const entries = new Map<string, Entry>()
  const byBackend = new Map<string, Set<string>>()
  const ofAccount = new Map<string, number>()

  function remove(key: string, { backend, account }: Entry): void {
    entries.delete(key)
    const keys = byBackend.get(backend)
    keys?.delete(key)
    if (keys?.size === 0) byBackend.delete(backend)
    const left = (ofAccount.get(account) ?? 1) - 1
    if (left > 0) ofAccount.set(account, left)
    else ofAccount.delete(account)
    onRemoved(key)
  }

  /** Removes an entry of the account with the most entries. */
  function makeRoom(): void {
    const [largest] = [...ofAccount].reduce((most, each) => (each[1] > most[1] ? each : most))
    const found = entries.entries().find(([, { account }]) => account === largest)
    if (found) remove(...found)
  }

  function add(key: string, entry: Entry): void {
    if (entries.size >= limit) makeRoom()
    entries.set(key, entry)
    byBackend.set(entry.backend, (byBackend.get(entry.backend) ?? new Set()).add(key))
    ofAccount.set(entry.account, (ofAccount.get(entry.account) ?? 0) + 1)
  }

  return { entries, keysOf: (backend: string): Iterable<string> => byBackend.get(backend) ?? [], add, remove }
}

const sent = ({ backend, address, port, status, reason, since, lastAt }: Entry): UpstreamHealth => ({
  backend,
  address,
  port,
  status,
  reason,
  since: rfc3339(since),
  ...(status === 'failing' && { lastFailedAt: rfc3339(lastAt) }),
})

/** Takes one item of each lane in turn, so that a long lane does not delay the others. */
function inTurns<Item>(lanes: Map<unknown, Item[]>, max: number): Item[] {
  const taken: Item[] = []
  for (let turn = 0; taken.length < max; turn++) {
    const before = taken.length
    for (const lane of lanes.values()) {
      const item = lane[turn]
      if (item !== undefined && taken.length < max) taken.push(item)
    }
    if (taken.length === before) break
  }
  return taken
}
