import type { Db } from '../../db/pool.ts'
import { etagOf } from '../../http/preconditions.ts'
import { type Route, route } from '../../http/route.ts'
import { Refusal } from '../../kernel/errors.ts'
import { toId } from '../../kernel/ids.ts'
import { actionRoute } from '../../operations/change_routes.ts'
import { listRoute } from '../../operations/read_routes.ts'
import { existing, type Resource } from '../../operations/resource.ts'
import { halt, RolloutFault, resume, type StoredRollout } from '../../operations/rollouts.ts'
import { Rollout, RolloutDecision, RolloutDetails, RolloutQuery } from './schema.ts'
import { eventsOf, type FoundRollout, findRollout, listRollouts, wavesOfNodes } from './store.ts'
import { stableRolloutFields, toDetails, toRollout } from './view.ts'

export const rolloutResource: Resource<{ id: 'ro' }, FoundRollout, typeof Rollout> = {
  name: 'rollouts',
  path: '/rollouts',
  params: { id: 'ro' },
  shape: Rollout,
  view: toRollout,
  find: findRollout,
  stableFields: stableRolloutFields,
}

const maxEvents = 100

type Decide = (tx: Db, rollout: StoredRollout, why: { reason: string }) => Promise<void>

/** Notifies the nodes immediately, without waiting for the publisher's next poll. */
const decision = (verb: string, summary: string, access: Route['access'], decide: Decide): Route => {
  const made = actionRoute(rolloutResource, {
    verb,
    summary,
    access,
    body: RolloutDecision,
    errors: ['ERR_ROLLOUT_STATE'],
    async apply(tx, { caller, body }, before) {
      try {
        await decide(tx, before, body)
      } catch (error) {
        if (!(error instanceof RolloutFault)) throw error
        throw new Refusal('ERR_ROLLOUT_STATE', `${error.message.charAt(0).toUpperCase()}${error.message.slice(1)}.`)
      }
      const after = await findRollout(tx, caller, toId('ro', before.public_id), false)
      if (!after) throw new Error('a rollout was gone after a decision about it')
      return after
    },
    audited: () => ({}),
  })
  return {
    ...made,
    alone: true,
    async handle(request) {
      const result = await made.handle(request)
      request.edges.committed()
      return result
    },
  }
}

export const rolloutRoutes: Route[] = [
  listRoute(rolloutResource, { access: 'anyone', field: 'rollouts', query: RolloutQuery, select: listRollouts }),
  route({
    operation: 'rollouts.get',
    summary: 'Get a rollout, with its nodes and the changes that it contains',
    method: 'GET',
    path: '/rollouts/:id',
    params: { id: 'ro' },
    success: 200,
    response: RolloutDetails,
    tagged: true,
    access: 'anyone',
    async handle(request) {
      const { db, edges, uri, caller } = request
      const row = await existing(rolloutResource, db, request, false)
      const nodes = edges.all().filter(({ cell }) => cell === row.cell)
      const waves = await wavesOfNodes(db, row.cell_id)
      const events = await eventsOf(db, row, maxEvents)
      const body = toDetails(row, uri, { nodes, waves, events, isAdmin: caller.role === 'admin' })
      return { body, etag: etagOf(stableRolloutFields(body), body) }
    },
  }),
  decision('halt', 'Halt a rollout: nodes that have its changes get back what they had before', 'anyone', halt),
  decision('resume', 'Give a halted rollout to the first nodes again, and watch it', 'anyone', resume),
  decision('release', 'Give a rollout to all nodes without watching it', 'admin', (tx, rollout, { reason }) =>
    resume(tx, rollout, { reason, isUrgent: true }),
  ),
]
