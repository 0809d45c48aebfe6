import type { Evaluated } from '../access/tests/evaluate.ts'
import type { AccessTestRow } from '../access/tests/load.ts'
import type { FailedAccessTest } from '../http/dry_run.ts'
import { toId } from '../kernel/ids.ts'

/** Omits a deleted edge or route. */
export function shownTarget({ type, target_id, path }: AccessTestRow): FailedAccessTest['target'] {
  if (type === 'edge') return { type, ...(target_id && { edge_id: toId('edgtcp', target_id) }) }
  if (type === 'route')
    return { type, ...(target_id && { route_id: toId('edghtsrt', target_id) }), ...(path !== null && { path }) }
  return { type }
}

export const toFailed = ({ test, is }: Evaluated): FailedAccessTest => ({
  id: toId('act', test.id),
  ...(test.description !== null && { description: test.description }),
  address: test.address,
  target: shownTarget(test),
  expect: test.expect,
  ...is,
})
