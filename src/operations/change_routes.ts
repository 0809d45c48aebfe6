import type { Static, TObject } from 'typebox'
import type { Db } from '../db/pool.ts'
import { transaction } from '../db/transaction.ts'
import { checkIfMatch } from '../http/preconditions.ts'
import { editedFields, refuseChanged } from '../http/read_only.ts'
import { type Handling, type ParamsOf, type Result, type Route, type RouteShape, route } from '../http/route.ts'
import { Closed, EdgeChangeQuery } from '../http/wire.ts'
import type { Caller } from '../identity/caller.ts'
import { record } from './change.ts'
import { once } from './idempotency.ts'
import { withinQuota } from './quota.ts'
import {
  existing,
  type Guard,
  type GuardedRequest,
  guardOf,
  type ItemParams,
  nameOf,
  presented,
  type Resource,
  stableFieldsOf,
  type View,
} from './resource.ts'

/** Properties specific to the route of a change; the resource determines the rest. */
type Writing<B extends TObject> = Pick<
  RouteShape<never, never, B, never>,
  'access' | 'adminsOnly' | 'errors' | 'check' | 'vendorDefaults' | 'bodyLimitBytes'
> & { readonly summary?: string; readonly body: B }

type ItemRequest<P extends ItemParams, Query, Body> = Handling<ParamsOf<P>, Query, Body>
/** Checks beyond `access` whether the caller may change this row. Throws a refusal. */
type Permit<Row, Body = unknown> = (tx: Db, caller: Caller, row: Row, body: Body) => unknown
type Apply<P extends ItemParams, Row, Body> = (
  tx: Db,
  request: ItemRequest<P, object, Body>,
  before: Row,
) => Promise<Row>

type CreateRequest<P extends ItemParams, B extends TObject> = Handling<ParamsOf<Omit<P, 'id'>>, object, Static<B>>

/** POST route that creates a resource. `insert` returns the row. */
export function createRoute<P extends ItemParams, Row, Shape extends TObject, B extends TObject>(
  resource: Resource<P, Row, Shape>,
  options: Writing<B> & {
    readonly insert: (tx: Db, request: CreateRequest<P, B>) => Promise<Row>
    /**
     * Inserts row and audit event in one statement, committed when it resolves. Resolves to undefined, without effect,
     * if that is impossible; then `insert` decides. Only for resources without guard and records.
     */
    readonly insertAtOnce?: (request: CreateRequest<P, B>) => Promise<Row | undefined>
  },
): Route {
  const { insert, insertAtOnce, errors = [], ...writing } = options
  const { quota } = resource
  const { id: _, ...params } = resource.params
  return route({
    operation: `${resource.name}.create`,
    summary: `Create ${nameOf(resource)}`,
    ...writing,
    method: 'POST',
    path: resource.path,
    ...(Object.keys(params).length > 0 && { params }),
    query: changeQuery(resource, guardOf(resource, 'create')),
    success: 201,
    response: resource.shape,
    secret: resource.secret,
    tagged: true,
    managesKeys: resource.managesKeys,
    errors: [
      ...(['ERR_IDEMPOTENCY_KEY_USED', ...(quota ? (['ERR_QUOTA'] as const) : [])] as const),
      ...(guardOf(resource, 'create')?.errors ?? []),
      ...errors,
    ],
    async handle(request) {
      const made = request.idempotencyKey === undefined ? await insertAtOnce?.(request) : undefined
      if (made)
        return responseTo(resource, request, {
          ...{ row: made, body: resource.view(made, request.uri), generation: undefined, replayed: false },
        })
      const done = await changing(guardOf(resource, 'create'), request, (tx) =>
        once(tx, request, async () => {
          const add = () => insert(tx, request)
          const claim = quota && { kind: quota, added: 1, quotas: request.settings.quotas }
          const row = claim ? await withinQuota(tx, request.caller, claim, add) : await add()
          const body = resource.view(row, request.uri)
          const generation = await record(tx, request.origin, {
            resourceId: body.id,
            before: null,
            after: stableFieldsOf(resource, body),
            records: resource.records?.(row, request.caller, 'create'),
            denies: resource.denies?.(row),
          })
          return { row, body, generation }
        }),
      )
      return responseTo(resource, request, done)
    },
  })
}

/** PATCH route. `apply` gets the locked row and returns the changed one. */
export function updateRoute<P extends ItemParams, Row, Shape extends TObject, B extends TObject>(
  resource: Resource<P, Row, Shape>,
  options: Writing<B> & { readonly permit?: Permit<Row, Static<B>>; readonly apply: Apply<P, Row, Static<B>> },
): Route {
  const { permit, apply, errors = [], ...writing } = options
  return route({
    operation: `${resource.name}.update`,
    summary: `Update ${nameOf(resource)}. Omitted fields keep their values`,
    ...writing,
    acceptsResponse: true,
    method: 'PATCH',
    path: `${resource.path}/:id`,
    params: resource.params,
    query: changeQuery(resource, guardOf(resource, 'update')),
    success: 200,
    response: resource.shape,
    tagged: true,
    managesKeys: resource.managesKeys,
    errors: ['ERR_PRECONDITION_FAILED', ...(guardOf(resource, 'update')?.errors ?? []), ...errors],
    async handle(request) {
      const { body, generation } = await changing(guardOf(resource, 'update'), request, async (tx) => {
        const edited = (shown: object) =>
          editedFields(request.body, request.repeated, writing.body, resource.shape, shown)
        const before = await changeable(resource, tx, request, permit, edited)
        const row = await apply(tx, { ...request, body: before.body }, before.row)
        const body = resource.view(row, request.uri)
        const after = stableFieldsOf(resource, body)
        refuseChanged(request.repeated, [
          { shown: repeatable(resource, before.shown), stable: before.fields },
          { shown: repeatable(resource, body), stable: after },
        ])
        const generation = await record(tx, request.origin, {
          resourceId: body.id,
          before: before.fields,
          after,
          records: resource.records?.(row, request.caller, 'update', before.row),
        })
        return { body, generation }
      })
      return { ...(await presented(resource, request, body)), generation }
    },
  })
}

/** POST route for a verb, for changes that a PATCH cannot express. */
export function actionRoute<P extends ItemParams, Row, Shape extends TObject, B extends TObject, Prepared = undefined>(
  resource: Resource<P, Row, Shape>,
  options: Writing<B> & {
    readonly verb: string
    readonly summary: string
    readonly permit?: Permit<Row, Static<B>>
    /** Work that takes too long for a transaction. The row may have changed when `apply` gets its result. */
    readonly prepare?: (request: ItemRequest<P, object, Static<B>>, row: Row) => Promise<Prepared>
    readonly apply: (
      tx: Db,
      request: ItemRequest<P, object, Static<B>>,
      before: Row,
      prepared: Prepared,
    ) => Promise<Row>
    /** Fields of the audit event in addition to the resource's stable fields. */
    readonly audited: (shown: View<P, Shape>, row: Row) => object
  },
): Route {
  const { verb, permit, prepare, apply, audited, errors = [], ...writing } = options
  return route({
    operation: `${resource.name}.${verb}`,
    ...writing,
    method: 'POST',
    path: `${resource.path}/:id/${verb}`,
    params: resource.params,
    query: changeQuery(resource, undefined),
    success: 200,
    response: resource.shape,
    secret: resource.secret,
    tagged: true,
    managesKeys: resource.managesKeys,
    ...(prepare && { alone: true }),
    errors: ['ERR_PRECONDITION_FAILED', 'ERR_IDEMPOTENCY_KEY_USED', ...errors],
    async handle(request) {
      const prepared = (await prepare?.(request, await existing(resource, request.db, request, false))) as Prepared
      const done = await changing(undefined, request, (tx) =>
        once(tx, request, async () => {
          const before = await changeable(resource, tx, request, permit)
          const row = await apply(tx, request, before.row, prepared)
          const body = resource.view(row, request.uri)
          const generation = await record(tx, request.origin, {
            resourceId: body.id,
            before: before.fields,
            after: { ...stableFieldsOf(resource, body), ...audited(body, row) },
            records: resource.records?.(row, request.caller, 'update'),
          })
          return { row, body, generation }
        }),
      )
      return responseTo(resource, request, done)
    },
  })
}

export function deleteRoute<P extends ItemParams, Row, Shape extends TObject>(
  resource: Resource<P, Row, Shape>,
  options: Omit<Writing<TObject>, 'body' | 'check'> & {
    /** Query parameters in addition to those of every change. */
    readonly query?: TObject
    readonly permit?: Permit<Row>
    readonly remove: (tx: Db, request: ItemRequest<P, object, unknown>, before: Row) => Promise<unknown>
  },
): Route {
  const { query, permit, remove, errors = [], ...writing } = options
  return route({
    operation: `${resource.name}.delete`,
    summary: `Delete ${nameOf(resource)}`,
    ...writing,
    method: 'DELETE',
    path: `${resource.path}/:id`,
    params: resource.params,
    query: Closed({ ...changeQuery(resource, guardOf(resource, 'delete')).properties, ...query?.properties }),
    success: 204,
    managesKeys: resource.managesKeys,
    errors: ['ERR_PRECONDITION_FAILED', ...(guardOf(resource, 'delete')?.errors ?? []), ...errors],
    handle: (request) =>
      changing(guardOf(resource, 'delete'), request, async (tx) => {
        const before = await changeable(resource, tx, request, permit)
        await remove(tx, request, before.row)
        const generation = await record(tx, request.origin, {
          resourceId: before.id,
          before: before.fields,
          after: null,
          records: resource.records?.(before.row, request.caller, 'delete'),
        })
        return { body: undefined, generation }
      }),
  })
}

/**
 * Changes a part with its own path and ETag, such as a module of an edge. Locks the whole resource to serialize changes
 * of its parts. The audit event describes the part.
 */
export const changePart = <P extends ItemParams, Row, Shape extends TObject, Part extends object>(
  resource: Resource<P, Row, Shape>,
  request: ItemRequest<P, object, unknown>,
  part: {
    readonly name: string
    readonly show: (row: Row) => Part | undefined
    readonly apply: (tx: Db, row: Row) => Promise<void>
    readonly guard?: Guard | undefined
  },
): Promise<{ after: Part | undefined; generation: number | undefined }> =>
  changing(part.guard, request, async (tx) => {
    const row = await existing(resource, tx, request, true)
    const before = part.show(row)
    checkIfMatch(request.ifMatch, before)
    await part.apply(tx, row)
    const changed = await existing(resource, tx, request, false)
    const after = part.show(changed)
    refuseChanged(
      request.repeated,
      [before, after].flatMap((shown) => (shown ? [{ shown, stable: shown }] : [])),
    )
    const generation = await record(tx, request.origin, {
      resourceId: resource.view(row, request.uri).id,
      before: before ? { [part.name]: before } : null,
      after: after ? { [part.name]: after } : null,
      records: resource.records?.(changed, request.caller, 'update', row),
    })
    return { after, generation }
  })

/** Changes that concern edges accept `wait`. */
const changeQuery = ({ records }: { readonly records?: unknown }, guard: Guard | undefined) =>
  Closed({ ...guard?.query.properties, ...(records ? EdgeChangeQuery : {}) })

/** One transaction, inside the guard. */
const changing = <Done>(
  guard: Guard | undefined,
  request: GuardedRequest,
  change: (tx: Db) => Promise<Done>,
): Promise<Done> => (guard ? guard.transaction(request, change) : transaction(request.db, change))

/** Finds and locks the resource, and checks the caller's rights and If-Match. */
async function changeable<P extends ItemParams, Row, Shape extends TObject, Body>(
  resource: Resource<P, Row, Shape>,
  tx: Db,
  request: ItemRequest<P, unknown, Body>,
  permit: Permit<Row, Body> | undefined,
  edited: (shown: object) => Body = () => request.body,
) {
  const row = await existing(resource, tx, request, true)
  const shown = resource.view(row, request.uri)
  const body = edited(shown)
  await permit?.(tx, request.caller, row, body)
  const fields = stableFieldsOf(resource, shown)
  checkIfMatch(request.ifMatch, fields)
  return { row, id: shown.id, shown, fields, body }
}

/** Fields of a response that a PATCH may repeat, including the status, which is added only after the change. */
const repeatable = <P extends ItemParams, Row, Shape extends TObject>(
  { statuses }: Resource<P, Row, Shape>,
  shown: View<P, Shape>,
): object => (statuses ? { ...shown, status: {} } : shown)

type Done<P extends ItemParams, Row, Shape extends TObject> = {
  body: View<P, Shape>
  generation: number | undefined
} & ({ row: Row; replayed: false } | { replayed: true })

/** Builds the response after the commit. Repeated requests with an Idempotency-Key do not get the secret again. */
async function responseTo<P extends ItemParams, Row, Shape extends TObject>(
  resource: Resource<P, Row, Shape>,
  request: Handling<unknown, object, unknown>,
  done: Done<P, Row, Shape>,
): Promise<Result<View<P, Shape>>> {
  const { secret } = resource
  const { generation, replayed } = done
  const { body, etag } = await presented(resource, request, done.body)
  if (replayed)
    return { body, etag, generation, replayed, ...(secret !== undefined && { warnings: [`${secret}=told_once`] }) }
  return { body: secret === undefined ? body : { ...body, [secret]: done.row[secret] }, etag, generation }
}
