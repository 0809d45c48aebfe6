import { type ClientRequest, type IncomingMessage, request } from 'node:http'

// biome-ignore lint/suspicious/noExplicitAny: a test reads the fields it expects.
export type StreamEvent = { event: string; data: any }
export type OpenStream = {
  status: number
  events: StreamEvent[]
  /** How many have come: the first when it is open, and then one every ten seconds. */
  comments: () => number
  isOver: () => boolean
  response: IncomingMessage
  close: () => void
}

/** A stream of server-sent events, read as it comes. */
export function openStream(
  origin: string,
  path: string,
  headers: Record<string, string>,
  localAddress?: string,
): Promise<OpenStream> {
  return new Promise((resolve, reject) => {
    const sent: ClientRequest = request(
      `${origin}${path}`,
      { agent: false, headers: { 'service-version': '2', ...headers }, ...(localAddress && { localAddress }) },
      (response) => {
        const events: StreamEvent[] = []
        let comments = 0
        let rest = ''
        let over = false
        response.setEncoding('utf8').on('data', (chunk: string) => {
          const blocks = (rest + chunk).split('\n\n')
          rest = blocks.pop() ?? ''
          for (const block of blocks) {
            const [, event = '', data] = /^event: (\w+)\ndata: (.*)$/.exec(block) ?? []
            if (data === undefined) comments++
            else events.push({ event, data: JSON.parse(data) })
          }
        })
        response.on('close', () => {
          over = true
        })
        response.on('error', () => {})
        resolve({
          status: response.statusCode ?? 0,
          events,
          comments: () => comments,
          isOver: () => over,
          response,
          close: () => sent.destroy(),
        })
      },
    )
    sent.on('error', reject).end()
  })
}
