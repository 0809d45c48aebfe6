// Holds ratios of processor time to recorded ones. Absolute figures are of one machine; a ratio of two programs that take turns
// is of both of them, and falls when ours becomes more expensive.
import { readFile } from 'node:fs/promises'
import type { Spread } from './harness/statistics.ts'

/** `higherIs`: better, where ours is what is divided by; worse, where ours is divided. */
export type Ratio = { bench: string; of: string; to: string; higherIs: 'better' | 'worse'; spread: Spread }
type Recorded = Record<string, Spread>

const recordedFile = new URL('recorded.json', import.meta.url)
export const nameOf = ({ bench, of, to }: Pick<Ratio, 'bench' | 'of' | 'to'>): string => `${bench}: ${of}, of ${to}`

/** Two equal programs that differ more than this say that nothing can be measured here now. */
const mostNoise = 0.25

export const readRecorded = async (): Promise<Recorded> => JSON.parse(await readFile(recordedFile, 'utf8'))

/**
 * One sentence for each ratio that is worse than recorded, beyond both spreads, and for what cannot be told. `margin`: what other
 * work on the machine, another machine, or another compiler of the same version may do beyond the spreads.
 */
export function faultsOf(ratios: readonly Ratio[], recorded: Recorded, margin = 0.1): string[] {
  const faults: string[] = []
  for (const ratio of ratios) {
    const [name, { spread }] = [nameOf(ratio), ratio]
    const isControl = ratio.of.endsWith(' again')
    const before = isControl ? { median: 1, low: 1, high: 1 } : recorded[name]
    if (!before) {
      faults.push(`${name}: nothing is recorded; measure it and add it to bench/recorded.json`)
      continue
    }
    if (isControl) {
      if (!(Math.abs(spread.median - 1) <= mostNoise))
        faults.push(
          `${name}: two equal programs differ by ${spread.median.toFixed(2)}; measure when less else is running`,
        )
      continue
    }
    const isFine =
      ratio.higherIs === 'better' ? spread.high >= before.low * (1 - margin) : spread.low <= before.high * (1 + margin)
    if (!isFine)
      faults.push(
        `${name}: ${spread.median.toFixed(2)}, recorded ${before.median.toFixed(2)} (${before.low}–${before.high})`,
      )
  }
  return faults
}
