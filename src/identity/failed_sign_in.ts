import type { Id } from '../kernel/ids.ts'
import type { Caller } from './caller.ts'

/** A failed sign-in with a token. */
export type FailedSignIn = {
  readonly operationId: Id<'op'>
  readonly sourceIp?: string | undefined
  readonly token: string
  /** The caller, if the token is valid and something else was refused. */
  readonly caller?: Caller | undefined
  /** Whether the key's ranges refused it, which is a separate event. */
  readonly isOutsideRanges: boolean
  readonly error: unknown
}
