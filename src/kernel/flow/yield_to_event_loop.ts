const waiting: (() => void)[] = []

function next(): void {
  waiting.shift()?.()
  if (waiting.length) setImmediate(next)
}

/**
 * To be awaited between slices of long work. One slice of all such work runs per turn of the event loop, so that everything
 * else waits for one at most, however many are under way.
 */
export const yieldToEventLoop = (): Promise<void> =>
  new Promise((resume) => {
    if (waiting.push(resume) === 1) setImmediate(next)
  })
