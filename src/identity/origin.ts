import type { Id } from '../kernel/ids.ts'
import type { Caller } from './caller.ts'

/** Who did something, from where, under which operation: what an audit event says of its origin. */
export type Origin = {
  readonly accountId: Caller['accountId']
  readonly operation: string
  readonly operationId: Id<'op'>
  /** Absent when the operator did it with a command on the server. */
  readonly caller?: Caller
  readonly sourceIp?: string
  /** Why its changes are to reach all nodes without a watch. */
  readonly urgent?: string
}
