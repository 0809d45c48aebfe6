import assert from 'node:assert/strict'
import { setTimeout as delay } from 'node:timers/promises'
import { loadScaledTimeout } from './load_scaled_timeout.ts'

/**
 * Reads until `accept` is satisfied and resolves to that value. Fails with the last value seen. The time allowed is
 * generous, because only a failing test spends it. Without a pace, the pause is a tenth of the time already waited, so that
 * what takes long is not asked for forty times a second.
 */
export async function poll<Value>(
  read: () => Value | Promise<Value>,
  accept: (value: Value) => boolean = Boolean,
  { withinSeconds = 60, everyMs }: { withinSeconds?: number; everyMs?: number } = {},
): Promise<Value> {
  const began = Date.now()
  const deadline = began + loadScaledTimeout(withinSeconds * 1_000)
  for (;;) {
    const value = await read()
    if (accept(value)) return value
    if (Date.now() > deadline)
      assert.fail(
        `still not so after ${withinSeconds} s: ${accept}\nlast value: ${JSON.stringify(value)?.slice(0, 2_000)}`,
      )
    await delay(everyMs ?? Math.min(100, Math.max(25, (Date.now() - began) / 10)))
  }
}

/** For what must not happen: the check holds now and for this long. A slow machine checks less often, but never fails it. */
export async function holdsFor(milliseconds: number, check: () => unknown): Promise<void> {
  const end = Date.now() + milliseconds
  do {
    assert.ok(await check(), `no longer so after ${milliseconds - (end - Date.now())} ms: ${check}`)
    await delay(25)
  } while (Date.now() < end)
}

/** The pace of a loop in the background, or the head start in a race. Use `poll` to wait for something to happen. */
export const pause = (milliseconds: number): Promise<void> => delay(milliseconds)
