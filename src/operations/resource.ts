import type { Static, TObject, TSchema } from 'typebox'
import type { Db } from '../db/pool.ts'
import { transaction } from '../db/transaction.ts'
import type { RecordKey } from '../distribution/records.ts'
import { checkIfMatch, etagOf } from '../http/preconditions.ts'
import { type Handling, type InstallationSettings, type Route, type RouteShape, route } from '../http/route.ts'
import { Closed, ListOf, Wait } from '../http/wire.ts'
import type { Caller } from '../identity/caller.ts'
import { type ErrorCode, notFound } from '../kernel/errors.ts'
import { type Id, type IdPrefix, idPrefixes, manyOf, withArticle } from '../kernel/ids.ts'
import { toPage } from '../kernel/paging.ts'
import { record } from './change.ts'
import { once } from './idempotency.ts'

type UriOf = (path: string) => string
type Access = Route['access']
type AnyRequest = Handling<object, Record<string, unknown>, unknown>
/** Does something before and after a change, in its transaction; whatever it throws undoes the change. */
export type Guard = <Result>(tx: Db, request: AnyRequest, change: () => Promise<Result>) => Promise<Result>
type Writing<B> = {
  access: Access
  summary?: string
  errors?: readonly ErrorCode[]
  /** What the schema cannot say of the body; it throws a refusal. */
  check?: (body: B, settings: InstallationSettings, isVendorClient: boolean) => void
  vendorDefaults?: readonly string[]
  bodyLimitBytes?: number
}

/**
 * The five operations that every resource has, with what they all must do alike: the same 404, one transaction for a
 * change with its audit event and outbox row, ETags, idempotency keys, one form of list. A resource says how its rows
 * are found, shown and changed.
 */
export function resource<
  P extends IdPrefix,
  Row,
  Shape extends TSchema,
  ParentParams extends Record<string, IdPrefix> = Record<never, IdPrefix>,
>(definition: {
  /** The first part of its operations' names. */
  name: string
  prefix: P
  path: `/${string}`
  /** Its name in summaries, when its ids are named after something else. */
  noun?: string
  /** Path parameters that identify its parent. */
  parentParams?: ParentParams
  shape: Shape
  view: (row: Row, uri: UriOf) => Static<Shape> & { id: Id<P> }
  /** Resolves to undefined when the account has no such resource. `lock`: lock the row until the transaction ends. */
  find: (
    db: Db,
    caller: Caller,
    id: Id<P>,
    lock: boolean,
    params: { [K in keyof ParentParams]: Id<ParentParams[K]> },
  ) => Promise<Row | undefined>
  /** Who may read it. Default: anyone in the account. */
  readableBy?: Access
  /** Its changes create, change or revoke API keys. */
  managesKeys?: true
  /** Query parameters of its changes. */
  changeQuery?: TObject
  /** Wraps every change, inside its transaction. */
  guard?: Guard
  /** The fields that only a change alters, used for its ETag and audit events. Default: all of them. */
  stableFields?: (shown: Static<Shape> & { id: Id<P> }) => Record<string, unknown>
  /** The records to publish to edge nodes when it changes. */
  records?: (row: Row, caller: Caller, verb: 'create' | 'update' | 'delete') => readonly RecordKey[]
}) {
  const {
    name,
    prefix,
    path,
    shape,
    view,
    find,
    readableBy = 'anyone',
    records = () => [],
    stableFields = (shown) => shown,
  } = definition
  const changeQuery = Closed({ ...definition.changeQuery?.properties, ...(definition.records && { wait: Wait }) })
  type ParentParamsIds = { [K in keyof ParentParams]: Id<ParentParams[K]> }
  type Ids = ParentParamsIds & { id: Id<P> }
  const parentParams = definition.parentParams ?? ({} as ParentParams)
  const params = { ...parentParams, id: prefix }
  const noun = definition.noun ?? idPrefixes[prefix]
  const what = withArticle(noun)
  const writes = definition.managesKeys && { managesKeys: definition.managesKeys }

  async function existing(db: Db, request: AnyRequest, lock: boolean): Promise<Row> {
    const ids = request.params as Ids
    const row = await find(db, request.caller, ids.id, lock, ids)
    if (!row) throw notFound(prefix)
    return row
  }

  const change = <Result>(request: AnyRequest, work: (tx: Db) => Promise<Result>): Promise<Result> =>
    transaction(request.db, (tx) => (definition.guard ? definition.guard(tx, request, () => work(tx)) : work(tx)))

  /** Who may change this very one, beyond `access`. It throws a refusal. */
  type Permit<B = unknown> = (tx: Db, caller: Caller, row: Row, body: B) => unknown

  /** For a change of what exists: found, locked, the caller's to change, and still as the client saw it. */
  async function changeable(
    tx: Db,
    request: AnyRequest,
    permit: Permit<never> | undefined,
  ): Promise<{ row: Row; shown: ReturnType<typeof view> }> {
    const row = await existing(tx, request, true)
    await permit?.(tx, request.caller, row, request.body as never)
    const shown = view(row, request.uri)
    checkIfMatch(request.ifMatch, stableFields(shown))
    return { row, shown }
  }

  /** What only the first response reveals, and a repeated one does not. */
  type RevealOnce = { field: keyof Static<Shape> & string; of: (row: Row) => unknown }

  /** A POST that happens once for each Idempotency-Key, and the secret that only the first answer has. */
  async function revealingOnce(
    tx: Db,
    request: AnyRequest,
    revealOnce: RevealOnce | undefined,
    work: () => Promise<{ row: Row; shown: ReturnType<typeof view> }>,
  ): Promise<Static<Shape>> {
    let secret = {}
    const { shown, replayed } = await once(tx, request, async () => {
      const done = await work()
      if (revealOnce) secret = { [revealOnce.field]: revealOnce.of(done.row) }
      return done.shown
    })
    request.respond('ETag', etagOf(stableFields(shown)))
    if (replayed && revealOnce) request.respond('Service-Warning', `${revealOnce.field}=told_once`)
    return { ...shown, ...secret } as Static<Shape>
  }

  return {
    create: <B extends TObject>(
      writing: Writing<Static<B>> & {
        body: B
        insert: (tx: Db, request: Handling<ParentParamsIds, object, Static<B>>) => Promise<Row>
        revealOnce?: RevealOnce
      },
    ): Route =>
      route({
        operation: `${name}.create`,
        summary: writing.summary ?? `Create ${what}`,
        method: 'POST',
        path,
        ...(definition.parentParams && { params: parentParams }),
        query: changeQuery,
        body: writing.body,
        bodyLimitBytes: writing.bodyLimitBytes,
        check: writing.check,
        success: 201,
        response: shape,
        tagged: true,
        access: writing.access,
        ...writes,
        errors: ['ERR_IDEMPOTENCY_KEY_USED', ...(writing.errors ?? [])],
        handle: (request) =>
          change(request as never, (tx) =>
            revealingOnce(tx, request as never, writing.revealOnce, async () => {
              const row = await writing.insert(tx, request as never)
              const shown = view(row, request.uri)
              await record(tx, request, {
                resourceId: shown.id,
                before: null,
                after: stableFields(shown),
                records: records(row, request.caller, 'create'),
              })
              return { row, shown }
            }),
          ),
      } as RouteShape<ParentParams, TObject, B, Shape>),

    get: (): Route =>
      route({
        operation: `${name}.get`,
        summary: `Get ${what}`,
        method: 'GET',
        path: `${path}/:id`,
        params,
        success: 200,
        response: shape,
        tagged: true,
        access: readableBy,
        handle: async (request) => {
          const shown = view(await existing(request.db, request as never, false), request.uri)
          request.respond('ETag', etagOf(stableFields(shown)))
          return shown
        },
      }),

    list: <Q extends TObject>(reading: {
      field: string
      query: Q
      select: (db: Db, caller: Caller, query: Static<Q>) => Promise<Row[]>
    }): Route =>
      route({
        operation: `${name}.list`,
        summary: `List ${manyOf(noun)}, newest first`,
        method: 'GET',
        path,
        query: reading.query,
        success: 200,
        response: ListOf(reading.field, shape, `${(shape as { title?: string }).title}List`),
        access: readableBy,
        handle: async ({ db, caller, query, uri }) => {
          const rows = await reading.select(db, caller, query as Static<Q>)
          const views = rows.map((row) => view(row, uri))
          const { items, ...page } = toPage(views, query as Record<string, unknown>, uri(path))
          return { [reading.field]: items, ...page } as never
        },
      }),

    update: <B extends TObject>(
      writing: Writing<Static<B>> & {
        body: B
        permit?: Permit<Static<B>>
        apply: (tx: Db, request: Handling<Ids, object, Static<B>>, before: Row) => Promise<Row>
      },
    ): Route =>
      route({
        operation: `${name}.update`,
        summary: writing.summary ?? `Update ${what}. Omitted fields keep their values`,
        method: 'PATCH',
        path: `${path}/:id`,
        params,
        query: changeQuery,
        body: writing.body,
        bodyLimitBytes: writing.bodyLimitBytes,
        check: writing.check,
        vendorDefaults: writing.vendorDefaults,
        success: 200,
        response: shape,
        tagged: true,
        access: writing.access,
        ...writes,
        errors: ['ERR_PRECONDITION_FAILED', ...(writing.errors ?? [])],
        handle: (request) =>
          change(request as never, async (tx) => {
            const { row, shown: before } = await changeable(tx, request as never, writing.permit)
            const changed = await writing.apply(tx, request as never, row)
            const after = view(changed, request.uri)
            await record(tx, request, {
              resourceId: after.id,
              before: stableFields(before),
              after: stableFields(after),
              records: records(changed, request.caller, 'update'),
            })
            request.respond('ETag', etagOf(stableFields(after)))
            return after
          }),
      } as RouteShape<ParentParams & { id: P }, TObject, B, Shape>),

    /** A change beyond the five, as a POST below the thing itself. */
    act: <B extends TObject>(
      writing: Writing<Static<B>> & {
        verb: string
        summary: string
        body: B
        permit?: Permit
        apply: (tx: Db, request: Handling<Ids, object, Static<B>>, before: Row) => Promise<Row>
        revealOnce?: RevealOnce
        /** Fields of the audit event besides the stable ones. */
        alsoAudited?: (shown: Static<Shape>) => Record<string, unknown>
      },
    ): Route =>
      route({
        operation: `${name}.${writing.verb}`,
        summary: writing.summary,
        method: 'POST',
        path: `${path}/:id/${writing.verb}`,
        params,
        query: changeQuery,
        body: writing.body,
        success: 200,
        response: shape,
        tagged: true,
        access: writing.access,
        ...writes,
        errors: ['ERR_PRECONDITION_FAILED', 'ERR_IDEMPOTENCY_KEY_USED', ...(writing.errors ?? [])],
        handle: (request) =>
          change(request as never, (tx) =>
            revealingOnce(tx, request as never, writing.revealOnce, async () => {
              const { row: before, shown: shownBefore } = await changeable(tx, request as never, writing.permit)
              const row = await writing.apply(tx, request as never, before)
              const shown = view(row, request.uri)
              await record(tx, request, {
                resourceId: shown.id,
                before: stableFields(shownBefore),
                after: { ...stableFields(shown), ...writing.alsoAudited?.(shown) },
                records: records(row, request.caller, 'update'),
              })
              return { row, shown }
            }),
          ),
      } as RouteShape<ParentParams & { id: P }, TObject, B, Shape>),

    delete: <Q extends TObject = TObject>(
      writing: Writing<void> & {
        /** Query parameters beside those of every change. */
        query?: Q
        permit?: Permit
        remove: (tx: Db, request: Handling<Ids, Static<Q>, void>, before: Row) => Promise<unknown>
      },
    ): Route =>
      route({
        operation: `${name}.delete`,
        summary: writing.summary ?? `Delete ${what}`,
        method: 'DELETE',
        path: `${path}/:id`,
        params,
        query: Closed({ ...changeQuery.properties, ...writing.query?.properties }),
        success: 204,
        access: writing.access,
        ...writes,
        errors: ['ERR_PRECONDITION_FAILED', ...(writing.errors ?? [])],
        handle: (request) =>
          change(request as never, async (tx) => {
            const { row, shown: before } = await changeable(tx, request as never, writing.permit)
            await writing.remove(tx, request as never, row)
            await record(tx, request, {
              resourceId: before.id,
              before: stableFields(before),
              after: null,
              records: records(row, request.caller, 'delete'),
            })
          }) as never,
      }),
  }
}
