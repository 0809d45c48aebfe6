/** Does `work` for every item, for so many at a time. The results are in the order of the items. A failure is the end. */
export async function inParallel<Item, Result>(
  items: readonly Item[],
  width: number,
  work: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = []
  const queue = items.entries()
  let hasFailed = false
  const worker = async () => {
    for (const [index, item] of queue) {
      // A retry must not meet leftovers of this attempt.
      if (hasFailed) return
      results[index] = await work(item)
    }
  }
  const workers = Array.from({ length: Math.min(width, items.length) }, () =>
    worker().catch((error) => {
      hasFailed = true
      throw error
    }),
  )
  await Promise.all(workers)
  return results
}
