import { Type } from 'typebox'
import type { DbPool } from '../db/pool.ts'
import type { Caller } from '../identity/caller.ts'
import type { Origin } from '../identity/origin.ts'
import type { Extent, UnusualAbove } from '../kernel/unusual_change.ts'
import type { EdgeView } from './edges.ts'
import { ChangeImpact } from './impact.ts'
import type { Result, Route } from './route.ts'
import { AccessOutcome, AccessTestTarget, Closed, Id, type Static } from './wire.ts'

const Anything = (description: string) => Type.Unsafe<unknown>({ description })

export const Difference = Closed(
  {
    resource: Type.String({ description: 'The id of what the change would create, change or delete.' }),
    before: Type.Unsafe<object | null>({ type: ['object', 'null'], description: 'Null if it would be created.' }),
    after: Type.Unsafe<object | null>({ type: ['object', 'null'], description: 'Null if it would be deleted.' }),
  },
  { title: 'Difference' },
)
export type Difference = Static<typeof Difference>

export const UnusualExtents = Type.Array(
  Closed(
    {
      of: Type.Unsafe<Extent['of']>({
        type: 'string',
        enum: ['ip_policy_rules', 'edge_entries'],
        description: 'What is counted. `edge_entries` are the edges, routes and backends of the account.',
      }),
      resource: Type.String({ description: 'The id of the policy or the account.' }),
      before: Type.Integer(),
      added: Type.Integer(),
      removed: Type.Integer(),
    },
    { title: 'UnusualExtent' },
  ),
  { description: 'Why the change needs `confirm=true`. Empty if it does not.' },
)

export const FailedAccessTest = Closed(
  {
    id: Id('act'),
    description: Type.Optional(Type.String()),
    address: Type.String(),
    target: AccessTestTarget,
    expect: AccessOutcome,
    outcome: Type.Unsafe<'allowed' | 'refused' | 'unknown'>({
      type: 'string',
      enum: ['allowed', 'refused', 'unknown'],
      description: 'What would happen to the address.',
    }),
    reason: Type.String({ description: 'What would decide it.' }),
  },
  { title: 'FailedAccessTest' },
)
export type FailedAccessTest = Static<typeof FailedAccessTest>

/** The response to every change with `dry_run=true`. */
export const DryRunResult = Closed(
  {
    response: Anything(
      'The body that the change would be answered with; null where it has none. Ids and times are not those of the change, and a token or secret that it would return is left out.',
    ),
    differences: Type.Array(Difference, {
      description: 'What the audit events of the change would say. Empty if it would change nothing.',
    }),
    impact: ChangeImpact,
    failed_access_tests: Type.Array(FailedAccessTest, {
      description: 'The access tests that the change would break. It would be refused because of them.',
    }),
    needs_confirmation: UnusualExtents,
    needs_approval: Type.Boolean({
      description: 'The change would not be made at once: it would become a change set that waits for another admin.',
    }),
  },
  { title: 'DryRunResult' },
)
type DryRunResult = Static<typeof DryRunResult>

/** Makes a change, rolls it back and returns what it would have recorded. */
export type Rehearse = <Done>(
  db: DbPool,
  origin: Origin & { readonly caller: Caller },
  work: (db: DbPool) => Promise<Done>,
  judging: {
    now: number
    edges: EdgeView
    uri: (path: string) => string
    /** Undefined if the change never needs confirmation. */
    unusualAbove: UnusualAbove | undefined
    /** Whether the operation can break access tests. */
    isTested: boolean
  },
) => Promise<Rehearsed<Done>>
type Rehearsed<Done> = {
  done: Done
  differences: Difference[]
  unusual: Extent[]
  failedAccessTests: FailedAccessTest[]
  impact: ChangeImpact
}

/** Drops ETag and generation: they would name a state that was rolled back. */
export function dryRunResult(
  { secret }: Route,
  { done, differences, unusual, failedAccessTests, impact }: Rehearsed<Result<unknown>>,
  needsApproval: boolean,
): Result<DryRunResult> {
  const { body, replayed, warnings } = done
  const response = body === undefined ? null : secret === undefined ? body : without(body as object, secret)
  return {
    body: {
      ...{ response, differences, impact },
      failed_access_tests: failedAccessTests,
      needs_confirmation: unusual,
      needs_approval: done.needsApproval ?? needsApproval,
    },
    ...(replayed && { replayed }),
    ...(warnings && { warnings }),
  }
}

const without = (body: object, field: string): object =>
  Object.fromEntries(Object.entries(body).filter(([name]) => name !== field))
