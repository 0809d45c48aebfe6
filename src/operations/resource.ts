import type { Static, TObject } from 'typebox'
import type { Db } from '../db/pool.ts'
import type { RecordKey } from '../distribution/records.ts'
import { etagOf } from '../http/preconditions.ts'
import type { Handling, ParamsOf } from '../http/route.ts'
import type { Caller } from '../identity/caller.ts'
import { type ErrorCode, notFound } from '../kernel/errors.ts'
import { type Id, type IdPrefix, oneOf } from '../kernel/ids.ts'
import type { QuotaKind } from '../kernel/quotas.ts'

/** The parameters of the path of one resource: its own id and, before it, those of its parents. */
export type ItemParams = Readonly<Record<string, IdPrefix>> & { readonly id: IdPrefix }
export type View<P extends ItemParams, Shape extends TObject> = Static<Shape> & { readonly id: Id<P['id']> }

/** What the routes of a resource share: how its rows are found and shown, and what its changes leave behind. */
export type Resource<P extends ItemParams, Row, Shape extends TObject> = {
  /** The first part of its operations' names. */
  readonly name: string
  /** Where its list is. One of them is at `${path}/:id`. */
  readonly path: `/${string}`
  readonly params: P
  readonly shape: Shape
  readonly view: (row: Row, uri: (path: string) => string) => View<P, Shape>
  /** Resolves to undefined when the account has no such resource. `lock`: lock the row until the transaction ends. */
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
   * Reads the status of a whole page, and returns what it adds to each. It changes by itself, so it is no part of what only a change
   * alters: neither the audit nor If-Match sees it.
   */
  readonly statuses?: (
    request: StatusRequest,
    shown: readonly View<P, Shape>[],
  ) => Promise<(each: View<P, Shape>) => Partial<Static<Shape>>>
  /** The field that is kept nowhere: only the response to the request that made it has it. */
  readonly secret?: keyof Row & keyof Static<Shape> & string
  /** The quota that a new one uses. */
  readonly quota?: QuotaKind
  /** The records to publish to edge nodes when it changes. `before`: the row that a PATCH changed. */
  readonly records?: (
    row: Row,
    caller: Caller,
    verb: 'create' | 'update' | 'delete',
    before?: Row,
  ) => readonly RecordKey[]
  /** The range that a new one refuses, if it does nothing else. */
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
  /** Query parameters that changes take because of it. */
  readonly query: TObject
  /** Why it refuses changes. */
  readonly errors: readonly ErrorCode[]
  /** The changes that it is around. Default: all. */
  readonly verbs?: readonly Verb[]
  /** Runs a change in a transaction and does something before and after it; an exception undoes the change. It may run it twice. */
  readonly transaction: <Result>(request: GuardedRequest, change: (tx: Db) => Promise<Result>) => Promise<Result>
}

/** The guard around this change, if there is one. */
export const guardOf = ({ guard }: { readonly guard?: Guard }, verb: Verb): Guard | undefined =>
  !guard?.verbs || guard.verbs.includes(verb) ? guard : undefined

/** 'an API key', for summaries. */
export const nameOf = ({ params }: { params: ItemParams }): string => oneOf(params.id)

export const stableFieldsOf = <P extends ItemParams, Row, Shape extends TObject>(
  { stableFields }: Resource<P, Row, Shape>,
  shown: View<P, Shape>,
): object => stableFields?.(shown) ?? shown

/** What is shown of them, with how they are. */
export const withStatusOf = async <P extends ItemParams, Row, Shape extends TObject>(
  { statuses }: Resource<P, Row, Shape>,
  request: StatusRequest,
  shown: readonly View<P, Shape>[],
): Promise<readonly View<P, Shape>[]> => {
  if (!statuses || shown.length === 0) return shown
  const added = await statuses(request, shown)
  return shown.map((each) => ({ ...each, ...added(each) }))
}

/** The same of one, and its ETag. */
export async function presented<P extends ItemParams, Row, Shape extends TObject>(
  resource: Resource<P, Row, Shape>,
  request: StatusRequest,
  shown: View<P, Shape>,
): Promise<{ body: View<P, Shape>; etag: string }> {
  const stable = stableFieldsOf(resource, shown)
  const [body = shown] = await withStatusOf(resource, request, [shown])
  return { body, etag: resource.statuses ? etagOf(stable, body) : etagOf(stable) }
}

/** The row that the path names. Another account's is as one that does not exist. */
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
