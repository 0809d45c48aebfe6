import { yieldToEventLoop } from './yield_to_event_loop.ts'

/** Calls `work` for each item and yields to the event loop after every `atOnce` of them. */
export async function inSlices<Item>(items: Iterable<Item>, atOnce: number, work: (item: Item) => void): Promise<void> {
  let done = 0
  for (const item of items) {
    work(item)
    if (++done % atOnce === 0) await yieldToEventLoop()
  }
}
