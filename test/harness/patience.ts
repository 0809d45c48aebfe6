import { availableParallelism, loadavg } from 'node:os'

/** How long something may take here and now: on a machine with more to do than it has processors, all takes longer. */
export const patience = (milliseconds: number): number =>
  Math.ceil(milliseconds * Math.max(1, (1.5 * (loadavg()[0] ?? 0)) / availableParallelism()))
