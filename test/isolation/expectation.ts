import type { Client } from '../harness/client.ts'

/** Makes something as the given caller and resolves to its id. A new one each time. */
export type Make = (as: Client) => Promise<string>

/** What the matrix needs to know about an operation. The rest comes from the route. */
export type Expectation = {
  /** What an admin, and what a member, gets for a valid call on what an admin of their account made. */
  admin: number
  member: number
  /** What a member gets on what that member made, where it differs. */
  memberOnOwn?: number
  /** What a viewer gets, where it is neither 403 for a change nor what a member gets for reading. */
  viewer?: number
  /** Makes what the path names, all its parameters. Needed when the path has any. */
  path?: (as: Client) => Promise<Record<string, string>>
  /** A valid body that changes something. `as` is the caller's admin, for what the body has to name. */
  body?: (as: Client) => object | Promise<object>
  /** Fields of the body that name another resource; `[make]` for a list of ids. */
  references?: Record<string, Make | [Make]>
  /** Makes something that this list must then show, to its own account only. */
  lists?: Make
  /** Query parameters that name another resource. */
  filters?: Record<string, Make>
  /** For an operation that only asks, though it is not a GET. */
  changesNothing?: true
  /** For an operation that gives the caller what the key in the path has: with a limited key, that has to be itself. */
  onlyOnItself?: true
  /** What a key gets whose only scope is this operation, where it differs from an admin. */
  scoped?: number
}
