import type { Id } from '../kernel/ids.ts'
import type { Caller } from './caller.ts'

/** A failed sign-in with a token, and what is known of it. */
export type FailedSignIn = {
  readonly operationId: Id<'op'>
  readonly sourceIp?: string | undefined
  readonly token: string
  /** Who it is, if the token is good and something else was refused. */
  readonly caller?: Caller | undefined
  /** Whether the key's ranges refused it: that has an event of its own. */
  readonly isOutsideRanges: boolean
  readonly error: unknown
}
