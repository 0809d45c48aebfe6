import type { Readable } from 'node:stream'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { yieldToEventLoop } from '../kernel/flow/yield_to_event_loop.ts'
import { preferred } from './input/negotiate.ts'
import type { Route } from './route.ts'

/** In other threads, and optimized for speed rather than size: a client is waiting. A page of 100 takes 0.2 to 0.3 ms. */
const codings = {
  br: (text: string | Buffer) => promisify(brotliCompress)(text, { params: { [constants.BROTLI_PARAM_QUALITY]: 3 } }),
  gzip: (text: string | Buffer) => promisify(gzip)(text, { level: 1 }),
}
/** Less than this fits into one packet either way. */
const worthCompressing = 1_024
/**
 * For the rest. The answer to a change may have a secret beside what the client sent, which the lengths of many such answers would
 * give away. A strong tag says that the bytes are the same, and a single resource is short. The long ones are sets of rules.
 */
const worthCompressingAlways = 256 * 1_024

// Plain JSON.stringify: a compiled serializer took twice as long on a page of 100 rows.
export function send(reply: FastifyReply, status: number, body: unknown): FastifyReply {
  if (status === 204) return reply.code(204).send()
  return reply.code(status).type('application/json').send(JSON.stringify(body))
}

/** The success of a route, in the form that the client asks for. */
export async function sendResult(request: FastifyRequest, reply: FastifyReply, route: Route, body: unknown) {
  const { accept, 'accept-encoding': encodings } = request.raw.headers
  const type = preferred(accept, Object.keys(route.otherResponses ?? {}), 'application/json')
  const format = type === undefined ? undefined : route.otherResponses?.[type]
  if (route.success === 204) return send(reply, 204, body)
  const slices = format ?? route.slices
  const text = slices ? await gather(slices(body)) : JSON.stringify(body)
  // Spelled out: Fastify adds the charset to text, but not to the bytes of a long response.
  reply.code(route.success).type(`${format ? type : 'application/json'}; charset=utf-8`)
  const isList = route.method === 'GET' && !reply.hasHeader('ETag')
  if (text.length < (isList ? worthCompressing : worthCompressingAlways)) return reply.send(text)
  reply.header('Vary', [reply.getHeader('Vary'), 'Accept-Encoding'].filter(Boolean).join(', '))
  const coding = preferred(encodings, Object.keys(codings), 'identity')
  if (coding === undefined) return reply.send(text)
  return reply.header('Content-Encoding', coding).send(await codings[coding as keyof typeof codings](text))
}

/** Events as they come. The connection is good for nothing else afterwards, and closing the server must not wait for it. */
export function sendStream(request: FastifyRequest, reply: FastifyReply, stream: Readable): FastifyReply {
  // Not held back by a proxy until there is more of it.
  reply.headers({ Connection: 'close', 'X-Accel-Buffering': 'no' }).type('text/event-stream; charset=utf-8')
  if (request.method !== 'HEAD') return reply.send(stream)
  stream.destroy()
  return reply.send()
}

/** Gives way between the pieces: what is too long for one go must not keep others waiting. */
async function gather(slices: Iterable<string>): Promise<Buffer> {
  const pieces: Buffer[] = []
  for (const slice of slices) {
    pieces.push(Buffer.from(slice))
    await yieldToEventLoop()
  }
  return Buffer.concat(pieces)
}
