/**
 * Reads again at multiples of the time since the page was loaded, so that all that is due goes in one request. A timer may fire
 * a little early: what is due within a moment was just read.
 */
export const every = (ms: number) => (): number => {
  const left = ms - (performance.now() % ms)
  return left < 50 ? left + ms : left
}
