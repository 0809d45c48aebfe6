import type { Id } from '../kernel/ids.ts'
import type { Caller } from './caller.ts'

/** The origin of a change in its audit event: caller, address and operation. */
export type Origin = {
  readonly accountId: Caller['accountId']
  readonly operation: string
  readonly operationId: Id<'op'>
  /** Absent if the operator ran a command on the server. */
  readonly caller?: Caller
  readonly sourceIp?: string
  /** Why its changes reach all nodes without a watch. */
  readonly urgent?: string
}
