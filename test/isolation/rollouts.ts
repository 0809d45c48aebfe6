import { type DbPool, run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { type Id, newUuid, toId, toUuid } from '../../src/kernel/ids.ts'
import type { Expectation, Make } from './expectation.ts'
import { id } from './make.ts'

const reason = () => ({ reason: 'a test' })

/**
 * A rollout of one change, written as if a publisher of a cell with several waves had made it. In a cell of its own, where no
 * other rollout of the account is before it.
 */
export const rolloutIn =
  (database: () => DbPool, state: 'watching' | 'halted'): Make =>
  async (as) => {
    const { body: policy } = await as('POST', '/ip_policies', { description: 'one' })
    const { body: caller } = await as('GET', '/caller')
    return makeRollout(database(), { accountId: caller.account_id, resource: policy.id, state })
  }

async function makeRollout(
  db: DbPool,
  { accountId, resource, state }: { accountId: Id<'ac'>; resource: string; state: 'watching' | 'halted' },
): Promise<string> {
  const publicId = newUuid()
  const account = toUuid(accountId)
  const evidence =
    state === 'halted' ? JSON.stringify([{ node: 'edge-1', key: `policy.${resource}`, reason: 'too long' }]) : null
  await run(
    db,
    sql`
    with cell as (insert into cells (name) values (${`c${publicId.slice(-12)}`}) returning id),
    published as (insert into publisher_state (cell_id, cursor) select id, 0 from cell),
    made as (
      insert into rollouts (cell_id, account_id, since, open_until, state, reached, public_id, reason, evidence)
      select id, ${account}, 1, 2, ${state}, ${state === 'halted' ? -1 : 0}::int, ${publicId}, ${evidence && 'edge-1 refused it'}, ${evidence}::json
      from cell
      returning id
    ), changed as (
      insert into rollout_changes (rollout_id, operation_id)
      select made.id, e.operation_id from made, audit_events e where e.account_id = ${account} and e.resource_id = ${resource}
    )
    insert into held_records (rollout_id, key, contents)
    select id, ${`policy.${resource}`}, '{"value":null,"blobs":[]}' from made`,
  )
  return toId('ro', publicId)
}

export function rolloutExpectations(database: () => DbPool): Record<string, Expectation> {
  const watching = rolloutIn(database, 'watching')
  const halted = rolloutIn(database, 'halted')
  return {
    'rollouts.list': { admin: 200, member: 200, lists: watching },
    'rollouts.get': { admin: 200, member: 200, path: id(watching) },
    'rollouts.halt': { admin: 200, member: 200, path: id(watching), body: reason },
    'rollouts.resume': { admin: 200, member: 200, path: id(halted), body: reason },
    'rollouts.release': { admin: 200, member: 403, path: id(halted), body: reason },
    // It takes the right to propose changes as well.
    'rollouts.revert': { admin: 201, member: 201, scoped: 403, path: id(halted), body: () => ({}) },
  }
}
