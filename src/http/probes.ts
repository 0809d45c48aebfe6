import type { FastifyInstance } from 'fastify'
import { recentWriteFault } from '../db/failures.ts'
import { clockFault } from '../kernel/clock.ts'
import { databaseClockOffset, readinessFaults } from './readiness.ts'
import { send } from './send.ts'
import type { Service } from './service.ts'

/** For load balancers and Prometheus: /healthz, /readyz and /metrics. */
export function serveProbes(app: FastifyInstance, { db, clock, edges, metrics }: Service): void {
  const quiet = { config: { quiet: true }, exposeHeadRoute: true }
  app.get('/healthz', quiet, async (_request, reply) => send(reply, 200, { status: 'ok' }))
  app.get('/readyz', quiet, async (_request, reply) => {
    const faults = await readinessFaults(db)
    if (faults.length) app.log.warn({ faults }, 'not ready')
    if (faults.length) return send(reply, 503, { status: 'not ready', faults })
    // Only warnings: the API works without NATS, and every process has the same fault, so removing this one from the
    // load balancer would not help.
    const offset = await databaseClockOffset(db, clock).catch(() => 0)
    const warnings = [edges.fault(), clockFault(offset, 'PostgreSQL'), recentWriteFault()].filter(
      (warning) => warning !== undefined,
    )
    return send(reply, 200, { status: 'ready', ...(warnings.length > 0 && { warnings }) })
  })
  app.get('/metrics', quiet, async (_request, reply) => reply.type(metrics.contentType).send(await metrics.text()))
}
