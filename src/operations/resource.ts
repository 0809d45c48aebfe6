import type { Static, TObject } from 'typebox'
import type { Db } from '../db/pool.ts'
import type { RecordKey } from '../distribution/records.ts'
import { etagOf } from '../http/preconditions.ts'
import type { Handling, ParamsOf } from '../http/route.ts'
import type { Caller } from '../identity/caller.ts'
import { type ErrorCode, notFound } from '../kernel/errors.ts'
import { type Id, type IdPrefix, oneOf } from '../kernel/ids.ts'
import type { QuotaKind } from '../kernel/quotas.ts'

/** Path parameters of a resource: the ids of its parents, then its own. */
export type ItemParams = Readonly<Record<string, IdPrefix>> & { readonly id: IdPrefix }
export type View<P extends ItemParams, Shape extends TObject> = Static<Shape> & { readonly id: Id<P['id']> }

/** Properties shared by a resource's routes: how to find and show its rows, and the effects of changes. */
export type Resource<P extends ItemParams, Row, Shape extends TObject> = {
  /** First part of its operations' names. */
  readonly name: string
  /** Path of the list. A single resource is at `${path}/:id`. */
  readonly path: `/${string}`
  readonly params: P
  readonly shape: Shape
  readonly view: (row: Row, uri: (path: string) => string) => View<P, Shape>
  /** Resolves to undefined if the account has no such resource. `lock`: lock the row until the transaction ends. */
  readonly find: (
    db: Db,
    caller: Caller,
    id: ParamsOf<P>['id'],
    lock: boolean,
    params: ParamsOf<P>,
  ) => Promise<Row | undefined>
  /** Its changes create, change or revoke API keys. */
  readonly managesKeys?: true
  /** Wraps changes in its own transaction. */
  readonly guard?: Guard
  /** The fields that only a change alters, used for its ETag and audit events. Default: all of them. */
  readonly stableFields?: (shown: View<P, Shape>) => object
  /**
   * Reads the status of a whole page and returns the added fields for each. Excluded from the audit log and If-Match,
   * because it changes by itself.
   */
  readonly statuses?: (
    request: StatusRequest,
    shown: readonly View<P, Shape>[],
  ) => Promise<(each: View<P, Shape>) => Partial<Static<Shape>>>
  /** Field that is not stored: only the response that created it contains it. */
  readonly secret?: keyof Row & keyof Static<Shape> & string
  /** Quota that a new resource counts against. */
  readonly quota?: QuotaKind
  /** The records to publish to edge nodes when it changes. `before`: the row that a PATCH changed. */
  readonly records?: (
    row: Row,
    caller: Caller,
    verb: 'create' | 'update' | 'delete',
    before?: Row,
  ) => readonly RecordKey[]
  /** The range that a new row denies, if it has no other effect. */
  readonly denies?: (row: Row) => string | undefined
}

export type StatusRequest = Pick<
  Handling<unknown, unknown, unknown>,
  'db' | 'caller' | 'clock' | 'edges' | 'noteStatusUnread'
>

export type GuardedRequest = Pick<
  Handling<Readonly<Record<string, Id>>, object, unknown>,
  'db' | 'caller' | 'origin' | 'clock' | 'query' | 'params' | 'body'
>
type Verb = 'create' | 'update' | 'delete'
export type Guard = {
  /** Query parameters that the guard adds to changes. */
  readonly query: TObject
  /** Errors with which the guard refuses changes. */
  readonly errors: readonly ErrorCode[]
  /** Changes that the guard wraps. Default: all. */
  readonly verbs?: readonly Verb[]
  /**
   * Runs a change in a transaction, with checks before and after it; an exception rolls back. May run the change twice.
   */
  readonly transaction: <Result>(request: GuardedRequest, change: (tx: Db) => Promise<Result>) => Promise<Result>
}

/** The guard of this kind of change, if any. */
export const guardOf = ({ guard }: { readonly guard?: Guard }, verb: Verb): Guard | undefined =>
  !guard?.verbs || guard.verbs.includes(verb) ? guard : undefined

/** 'an API key', for summaries. */
export const nameOf = ({ params }: { params: ItemParams }): string => oneOf(params.id)

export const stableFieldsOf = <P extends ItemParams, Row, Shape extends TObject>(
  { stableFields }: Resource<P, Row, Shape>,
  shown: View<P, Shape>,
): object => stableFields?.(shown) ?? shown

/** Adds the status to each. */
export const withStatusOf = async <P extends ItemParams, Row, Shape extends TObject>(
  { statuses }: Resource<P, Row, Shape>,
  request: StatusRequest,
  shown: readonly View<P, Shape>[],
): Promise<readonly View<P, Shape>[]> => {
  if (!statuses || shown.length === 0) return shown
  const added = await statuses(request, shown)
  return shown.map((each) => ({ ...each, ...added(each) }))
}

/** Adds the status and the ETag to one resource. */
export async function presented<P extends ItemParams, Row, Shape extends TObject>(
  resource: Resource<P, Row, Shape>,
  request: StatusRequest,
  shown: View<P, Shape>,
): Promise<{ body: View<P, Shape>; etag: string }> {
  const stable = stableFieldsOf(resource, shown)
  const [body = shown] = await withStatusOf(resource, request, [shown])
  return { body, etag: resource.statuses ? etagOf(stable, body) : etagOf(stable) }
}

/** The row named by the path. Other accounts' rows are treated as missing. */
export async function existing<P extends ItemParams, Row, Shape extends TObject>(
  { find, params }: Resource<P, Row, Shape>,
  db: Db,
  request: Pick<Handling<ParamsOf<P>, unknown, unknown>, 'caller' | 'params'>,
  lock: boolean,
): Promise<Row> {
  const row = await find(db, request.caller, request.params.id, lock, request.params)
  if (!row) throw notFound(params.id)
  return row
}
