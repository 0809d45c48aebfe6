import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { preferred } from '../input/negotiate.ts'
import { securityHeaders } from './dashboard.ts'

export type PublicFile = (request: FastifyRequest, reply: FastifyReply) => Promise<FastifyReply>

/** Serves the same content to everyone. Built and compressed on first use, since most files are never requested. */
export function publicFile(type: string, make: () => Promise<string | Buffer> | string): PublicFile {
  let made: Promise<{ plain: Buffer; compressed: Buffer }> | undefined
  const content = async () => {
    const plain = Buffer.from(await make())
    return { plain, compressed: await promisify(gzip)(plain) }
  }
  return async (request, reply) => {
    made ??= content()
    const { plain, compressed } = await made.catch((error) => {
      made = undefined
      throw error
    })
    reply.headers(securityHeaders).header('Vary', 'Accept-Encoding').type(type)
    if (!preferred(request.raw.headers['accept-encoding'], ['gzip'], 'identity')) return reply.send(plain)
    return reply.header('Content-Encoding', 'gzip').send(compressed)
  }
}
