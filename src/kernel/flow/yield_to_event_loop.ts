const waiting: (() => void)[] = []

function next(): void {
  waiting.shift()?.()
  if (waiting.length) setImmediate(next)
}

/**
 * Await it between slices of long work. Each turn of the event loop runs one slice of all such work, so other tasks
 * wait for at most one slice, however many jobs run.
 */
export const yieldToEventLoop = (): Promise<void> =>
  new Promise((resume) => {
    if (waiting.push(resume) === 1) setImmediate(next)
  })
