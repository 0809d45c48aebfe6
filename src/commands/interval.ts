/** Does it now and again and again, never twice at once. The returned function ends that, after the run under way. */
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
