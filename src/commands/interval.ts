/** Runs `work` now and at every interval, never concurrently. The returned function stops it after the current run. */
export function interval(
  intervalMs: number,
  work: () => Promise<void>,
  onError: (error: unknown) => void,
): () => Promise<void> {
  let running = Promise.resolve()
  let busy = false
  const run = () => {
    if (busy) return
    busy = true
    running = work()
      .catch(onError)
      .finally(() => {
        busy = false
      })
  }
  run()
  const timer = setInterval(run, intervalMs)
  return () => {
    clearInterval(timer)
    return running
  }
}
