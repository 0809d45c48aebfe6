export type StreamEvent = { event: string; data: Record<string, unknown> }

/** Far longer than any event of ours; anything longer comes from another server. */
const maxEventLength = 1024 * 1024

/** Parses the events of a response as they arrive. Skips keep-alive comments; `onChunk` is called for those too. */
export async function* eventsOf(
  response: ReadableStream<Uint8Array>,
  onChunk: () => void = () => {},
): AsyncGenerator<StreamEvent> {
  const reader = response.getReader()
  const decoder = new TextDecoder()
  let rest = ''
  try {
    for (;;) {
      // Not `for await`, which some browsers do not support on streams.
      const { done, value } = await reader.read()
      if (done) return
      onChunk()
      const blocks = (rest + decoder.decode(value, { stream: true })).split('\n\n')
      rest = blocks.pop() ?? ''
      if (rest.length > maxEventLength) throw new Error('an event of the stream is too long')
      for (const block of blocks) {
        const event = eventOf(block)
        if (event) yield event
      }
    }
  } finally {
    await reader.cancel().catch(() => {})
  }
}

function eventOf(block: string): StreamEvent | undefined {
  const lines = block.split('\n')
  const fieldOf = (field: string) => lines.find((line) => line.startsWith(`${field}: `))?.slice(field.length + 2)
  const [event, data] = [fieldOf('event'), fieldOf('data')]
  return event !== undefined && data !== undefined ? { event, data: JSON.parse(data) } : undefined
}
