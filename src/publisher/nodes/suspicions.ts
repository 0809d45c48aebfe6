import { progressKey } from '../../distribution/channels.ts'
import { isRecordKey } from '../../distribution/validate.ts'
import type { EdgeNodes } from './nodes.ts'

const maxWaiting = 100

/** Keys whose bucket entry nodes of the cell found missing or unsigned, for the publisher to compare. */
export function watchSuspicions({ onReport }: Pick<EdgeNodes, 'onReport'>, cell: string) {
  const reported = new Map<string, Set<string>>()
  const waiting = new Set<string>()
  // A node repeats its latest refusals in each report.
  onReport(({ node, refusals }, its) => {
    if (its !== cell) return
    const before = reported.get(node)
    const unsigned = refusals.filter(
      ({ key, generation }) => generation === null && (key === progressKey || isRecordKey(key)),
    )
    for (const { key, at } of unsigned) if (!before?.has(`${key} ${at}`) && waiting.size < maxWaiting) waiting.add(key)
    reported.set(node, new Set(unsigned.map(({ key, at }) => `${key} ${at}`)))
  })
  return {
    take(): string[] {
      const keys = [...waiting]
      waiting.clear()
      return keys
    },
  }
}
export type Suspicions = ReturnType<typeof watchSuspicions>
