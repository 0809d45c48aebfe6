import type { Readable } from 'node:stream'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { yieldToEventLoop } from '../kernel/flow/yield_to_event_loop.ts'
import { preferred } from './input/negotiate.ts'
import type { Route } from './route.ts'

/** Compresses in other threads, with fast settings because a client is waiting: a page of 100 takes 0.2 to 0.3 ms. */
const codings = {
  br: (text: string | Buffer) => promisify(brotliCompress)(text, { params: { [constants.BROTLI_PARAM_QUALITY]: 3 } }),
  gzip: (text: string | Buffer) => promisify(gzip)(text, { level: 1 }),
}
/** Shorter responses fit into one packet anyway. */
const worthCompressing = 1_024
/**
 * Threshold for responses other than lists. A change may return a secret beside what the client sent, and compressed
 * lengths of many such responses would leak it. A strong ETag promises identical bytes, and single resources are short.
 * Rule sets exceed the threshold.
 */
const worthCompressingAlways = 256 * 1_024

// Plain JSON.stringify: a compiled serializer took twice as long on a page of 100 rows.
export function send(reply: FastifyReply, status: number, body: unknown): FastifyReply {
  if (status === 204) return reply.code(204).send()
  return reply.code(status).type('application/json').send(JSON.stringify(body))
}

/** Sends a successful result in the format that the client accepts. */
export async function sendResult(request: FastifyRequest, reply: FastifyReply, route: Route, body: unknown) {
  const { accept, 'accept-encoding': encodings } = request.raw.headers
  const type = preferred(accept, Object.keys(route.otherResponses ?? {}), 'application/json')
  const format = type === undefined ? undefined : route.otherResponses?.[type]
  if (route.success === 204) return send(reply, 204, body)
  const slices = format ?? route.slices
  const text = slices ? await gather(slices(body)) : JSON.stringify(body)
  // Explicit: Fastify appends the charset to text, but not to the bytes of a long response.
  reply.code(route.success).type(`${format ? type : 'application/json'}; charset=utf-8`)
  const isList = route.method === 'GET' && !reply.hasHeader('ETag')
  if (text.length < (isList ? worthCompressing : worthCompressingAlways)) return reply.send(text)
  reply.header('Vary', [reply.getHeader('Vary'), 'Accept-Encoding'].filter(Boolean).join(', '))
  const coding = preferred(encodings, Object.keys(codings), 'identity')
  if (coding === undefined) return reply.send(text)
  return reply.header('Content-Encoding', coding).send(await codings[coding as keyof typeof codings](text))
}

/** The connection cannot be reused after a stream, and closing the server must not wait for it. */
export function sendStream(request: FastifyRequest, reply: FastifyReply, stream: Readable): FastifyReply {
  // Tells proxies not to buffer the stream.
  reply.headers({ Connection: 'close', 'X-Accel-Buffering': 'no' }).type('text/event-stream; charset=utf-8')
  if (request.method !== 'HEAD') return reply.send(stream)
  stream.destroy()
  return reply.send()
}

/** Yields between the pieces, so that a long response does not block other requests. */
async function gather(slices: Iterable<string>): Promise<Buffer> {
  const pieces: Buffer[] = []
  for (const slice of slices) {
    pieces.push(Buffer.from(slice))
    await yieldToEventLoop()
  }
  return Buffer.concat(pieces)
}
