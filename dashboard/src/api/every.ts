/**
 * Polls at multiples of the interval since the page was loaded, so that all due reads share one request. A timer may
 * fire slightly early, in which case the read has just happened.
 */
export const every = (ms: number) => (): number => {
  const left = ms - (performance.now() % ms)
  return left < 50 ? left + ms : left
}
