type Limits = { total: number; perLane: number }
type Kind = 'urgent' | 'other'

/**
 * Serves the jobs of many lanes in turn, so that a lane with a thousand jobs does not delay the others: one lane has
 * only some of the places, and each lane with work gets its turn before any lane gets a second one. A job is in every
 * lane that wants it, and runs once. Urgent jobs of all lanes run first.
 */
export function createFairQueue(limits: Limits, work: (job: string) => Promise<void>) {
  /** The waiting jobs of each lane, in turn order. A lane without jobs has no entry. */
  const turns: Record<Kind, Map<string, Set<string>>> = { urgent: new Map(), other: new Map() }
  const queued = new Map<string, { lanes: Map<string, Kind>; done: PromiseWithResolvers<void> }>()
  const running = new Map<string, Promise<void>>()
  const runningInLane = new Map<string, number>()
  let stopped = false

  function leave(lane: string, kind: Kind, job: string): void {
    const jobs = turns[kind].get(lane)
    if (jobs?.delete(job) && jobs.size === 0) turns[kind].delete(lane)
  }

  function next(kind: Kind): { lane: string; job: string } | undefined {
    for (const [lane, jobs] of turns[kind]) {
      if ((runningInLane.get(lane) ?? 0) >= limits.perLane) continue
      for (const job of jobs) return { lane, job }
    }
    return undefined
  }

  function passOn(lane: string): void {
    for (const lanes of Object.values(turns)) {
      const jobs = lanes.get(lane)
      if (lanes.delete(lane) && jobs) lanes.set(lane, jobs)
    }
  }

  function start(): void {
    while (!stopped && running.size < limits.total) {
      const found = next('urgent') ?? next('other')
      if (!found) return
      const { lane, job } = found
      const { lanes, done } = queued.get(job) as NonNullable<ReturnType<typeof queued.get>>
      queued.delete(job)
      for (const [each, kind] of lanes) leave(each, kind, job)
      passOn(lane)
      runningInLane.set(lane, (runningInLane.get(lane) ?? 0) + 1)
      running.set(job, done.promise)
      void work(job)
        .catch(() => {})
        .finally(() => {
          const left = (runningInLane.get(lane) ?? 1) - 1
          if (left > 0) runningInLane.set(lane, left)
          else runningInLane.delete(lane)
          running.delete(job)
          done.resolve()
          start()
        })
    }
  }

  return {
    /** Resolves once the job is done, whichever lane ran it. */
    add(job: string, lanes: Iterable<string>, kind: Kind): Promise<void> {
      const current = running.get(job)
      if (current || stopped) return current ?? Promise.resolve()
      const entry = queued.get(job) ?? { lanes: new Map<string, Kind>(), done: Promise.withResolvers<void>() }
      queued.set(job, entry)
      for (const lane of lanes) {
        const before = entry.lanes.get(lane)
        if (before === 'urgent' || before === kind) continue
        if (before) leave(lane, before, job)
        entry.lanes.set(lane, kind)
        const jobs = turns[kind].get(lane)
        if (jobs) jobs.add(job)
        else turns[kind].set(lane, new Set([job]))
      }
      start()
      return entry.done.promise
    },
    stop(): void {
      stopped = true
      for (const { done } of queued.values()) done.resolve()
    },
  }
}
