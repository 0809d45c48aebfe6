import { availableParallelism, loadavg } from 'node:os'

/** A time limit for a quiet machine, stretched by how busy this one is right now. */
export const loadScaledTimeout = (milliseconds: number): number =>
  Math.ceil(milliseconds * Math.max(1, (1.5 * (loadavg()[0] ?? 0)) / availableParallelism()))
