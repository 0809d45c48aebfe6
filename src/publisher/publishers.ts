import type { Log } from '../kernel/log.ts'
import { type Timing, wait } from '../kernel/timing.ts'
import { type Cell, defaultCell } from '../operations/placement.ts'

const lookEveryMs = 2_000

type Parts = {
  listCells: () => Promise<Cell[]>
  /** Resolves soon after the signal aborts. */
  publish: (cell: Cell, signal: AbortSignal) => Promise<void>
  timing: Timing
  log: Log
}

/** Runs a publisher for every cell while the cell exists. */
export async function runPublishers({ listCells, publish, timing, log }: Parts, signal: AbortSignal): Promise<void> {
  const running = new Map<number, { gone: AbortController; ended: Promise<void> }>()
  function follow(cells: readonly Cell[]): void {
    for (const cell of cells) {
      if (running.has(cell.id)) continue
      const gone = new AbortController()
      running.set(cell.id, { gone, ended: publish(cell, AbortSignal.any([signal, gone.signal])) })
    }
    const ids = new Set(cells.map(({ id }) => id))
    for (const [id, { gone }] of running) if (!ids.has(id)) gone.abort()
  }
  // Every installation has the default cell, so it need not wait for the list of the others.
  follow([defaultCell])
  while (!signal.aborted) {
    await listCells().then(follow, (err) => log.warn({ err }, 'publisher: cannot list the cells yet; retrying'))
    await wait(timing, lookEveryMs, signal)
  }
  await Promise.all([...running.values()].map(({ ended }) => ended))
}
