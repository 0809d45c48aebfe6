import { parse } from 'node:querystring'
import { PassThrough, type Transform } from 'node:stream'
import { constants, createBrotliCompress, createGzip } from 'node:zlib'
import type { FastifyInstance } from 'fastify'
import { invalidField } from '../../kernel/errors.ts'
import { inParallel } from '../../kernel/flow/in_parallel.ts'
import { newId } from '../../kernel/ids.ts'
import { answer, enter } from '../answer.ts'
import type { Incoming, PreparedRoute } from '../handling.ts'
import { preferred } from '../input/negotiate.ts'
import { type DocUrl, failureOf, noSuchPath } from '../refusals.ts'
import { conclude, type Ended, type RequestFacts } from '../request_facts.ts'
import { noteSpan } from '../request_span.ts'
import type { Service } from '../service.ts'

/** More than any page of the dashboard needs. */
const maxReads = 40
/** The number of connections that a browser opens. */
const maxAtOnce = 6

/** Flushes each line when it is ready, so a slow read delays no other. */
const codings: Record<string, () => Transform> = {
  br: () =>
    createBrotliCompress({
      flush: constants.BROTLI_OPERATION_FLUSH,
      params: { [constants.BROTLI_PARAM_QUALITY]: 3, [constants.BROTLI_PARAM_LGWIN]: 18 },
    }),
  gzip: () => createGzip({ flush: constants.Z_SYNC_FLUSH, level: 1 }),
  identity: () => new PassThrough(),
}

/**
 * Combines several reads of the dashboard into one request: `/dashboard/reads?of=/caller&of=/edges/tcp`. Each is
 * authorized, rate-limited, counted and logged as a separate request, and answered with two lines: head and body.
 */
export function serveGatheredReads(
  app: FastifyInstance,
  service: Service,
  routes: Incoming['routes'],
  docUrl: DocUrl,
): void {
  const byPath = new Map([...routes.values()].filter(isGathered).map((route) => [route.path as string, route]))
  app.get<{ Querystring: { of?: string | string[] } }>(
    '/dashboard/reads',
    { config: { quiet: true } },
    async (request, reply) => {
      const wanted = [request.query.of ?? []].flat()
      if (wanted.length === 0 || wanted.length > maxReads)
        throw invalidField('of', `must be given 1 to ${maxReads} times`)
      const { raw } = request
      const coding = preferred(raw.headers['accept-encoding'], ['br', 'gzip'], 'identity') ?? 'identity'
      const lines = (codings[coding] ?? codings.identity)?.() as Transform
      void inParallel([...wanted.entries()], maxAtOnce, async ([at, of]) => {
        await roomIn(lines)
        if (lines.destroyed) return
        const { status, headers, body, ended } = await read(
          service,
          { raw, routes, route: byPath.get(pathOf(of)), of },
          docUrl,
        )
        if (!lines.destroyed) lines.write(`${JSON.stringify({ at, status, headers })}\n${JSON.stringify(body)}\n`)
        conclude(ended, service.metrics, app.log)
        noteSpan(service, ended, raw.headers.traceparent)
      }).then(
        () => lines.end(),
        (error) => lines.destroy(error),
      )
      reply.headers({ Vary: 'Accept-Encoding', 'X-Accel-Buffering': 'no' }).type('application/x-ndjson; charset=utf-8')
      if (coding !== 'identity') reply.header('Content-Encoding', coding)
      return reply.send(lines)
    },
  )
}

/** Backpressure: no further reads run while the client is behind, because their responses would be buffered. */
const roomIn = (stream: Transform): Promise<void> | undefined =>
  stream.writableNeedDrain ? new Promise((resolve) => stream.once('drain', resolve).once('close', resolve)) : undefined

/** Excludes paths with an id, streams, which do not end, and rule sets, which are too long for one line. */
const isGathered = ({ method, path, events, slices }: PreparedRoute): boolean =>
  method === 'GET' && !path.includes(':') && !events && !slices

const pathOf = (of: string): string => of.split('?', 1)[0] ?? ''

type Wanted = Pick<Incoming, 'raw' | 'routes'> & { route: PreparedRoute | undefined; of: string }
type Read = { status: number; headers: Record<string, string>; body: unknown; ended: Ended }

async function read(service: Service, { route, of, ...request }: Wanted, docUrl: DocUrl): Promise<Read> {
  const began = performance.now()
  const operationId = newId('op')
  const facts: RequestFacts = {}
  const answered = await (async () => {
    try {
      if (!route) throw noSuchPath()
      const query = parse(of.slice(route.path.length + 1)) as Record<string, unknown>
      const incoming: Incoming = { ...request, service, route, operationId, params: {}, query, facts }
      await enter(incoming)
      const { body, headers } = await answer(incoming)
      return { status: route.success, headers, body }
    } catch (error) {
      return failureOf(error, facts, operationId, docUrl)
    } finally {
      facts.turn?.end()
    }
  })()
  // Scripts can read these headers, so they must never include a cookie.
  const { ETag, 'Retry-After': retryAfter } = answered.headers
  return {
    ...answered,
    headers: {
      'Operation-Id': operationId,
      ...(ETag !== undefined && { ETag }),
      ...(retryAfter !== undefined && { 'Retry-After': retryAfter }),
    },
    ended: {
      ...{ id: operationId, facts, method: 'GET', path: route?.path ?? null },
      ...{ status: answered.status, elapsedMs: performance.now() - began },
    },
  }
}
