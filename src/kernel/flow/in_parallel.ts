/**
 * Does `work` for every item, for so many at a time. The results are in the order of the items. After a failure nothing more
 * begins, and it rejects when what had begun has ended: a retry must not meet leftovers of this attempt.
 */
export async function inParallel<Item, Result>(
  items: readonly Item[],
  width: number,
  work: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = []
  const failures: unknown[] = []
  const queue = items.entries()
  const worker = async () => {
    for (const [index, item] of queue) {
      if (failures.length > 0) return
      try {
        results[index] = await work(item)
      } catch (error) {
        failures.push(error)
      }
    }
  }
  await Promise.all(Array.from({ length: Math.min(width, items.length) }, worker))
  if (failures.length > 0) throw failures[0]
  return results
}
