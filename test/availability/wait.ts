import { pause } from '../harness/poll.ts'

export { pause }

/** As in test/harness/poll.ts, but the limit is part of what is rehearsed: it does not grow with the load of the machine. */
export async function poll<Value>(
  read: () => Value | Promise<Value>,
  accept: (value: Value) => boolean = Boolean,
  { withinSeconds = 90, everyMs = 25 } = {},
): Promise<Value> {
  for (const deadline = Date.now() + withinSeconds * 1_000; ; await pause(everyMs)) {
    const value = await read()
    if (accept(value)) return value
    if (Date.now() > deadline)
      throw new Error(
        `still not so after ${withinSeconds} s: ${accept}\nlast value: ${JSON.stringify(value)?.slice(0, 500)}`,
      )
  }
}
