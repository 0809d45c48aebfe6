import type { Static, TObject, TSchema } from 'typebox'
import type { Caller } from '../auth/caller.ts'
import type { Db } from '../db/pool.ts'
import { transaction } from '../db/transaction.ts'
import { type Handling, type Route, type RouteShape, route } from '../http/route.ts'
import { ListOf } from '../http/wire.ts'
import { type ErrorCode, notFound } from '../kernel/errors.ts'
import { type Id, type IdPrefix, idPrefixes } from '../kernel/ids.ts'
import { toPage } from '../kernel/paging.ts'
import { recordChange } from './audit_events/store.ts'

type UriOf = (path: string) => string
type Access = Route['access']
type Params<P extends IdPrefix> = { id: Id<P> }
/** Does something before and after a change, in its transaction; whatever it throws undoes the change. */
export type Guard = <Result>(
  tx: Db,
  request: Handling<object, Record<string, unknown>, unknown>,
  change: () => Promise<Result>,
) => Promise<Result>
type Writing = { access: Access; summary?: string; errors?: readonly ErrorCode[] }

/**
 * The five operations that every resource has, with what they all must do alike: the same 404, one transaction for a
 * change and its audit event, one form of list. A resource says how its rows are found, shown and changed.
 */
export function resource<P extends IdPrefix, Row, Shape extends TSchema & { static?: { id: Id<P> } }>(definition: {
  /** The first part of its operations' names. */
  name: string
  prefix: P
  path: `/${string}`
  shape: Shape
  view: (row: Row, uri: UriOf) => Static<Shape> & { id: Id<P> }
  /** Resolves to undefined when the caller's account has no such thing. `lock`: hold it until the transaction ends. */
  find: (db: Db, caller: Caller, id: Id<P>, lock: boolean) => Promise<Row | undefined>
  /** Who may read it. Anyone, when not given. */
  readableBy?: Access
  /** Query parameters of its changes. */
  changeQuery?: TObject
  /** Goes around every change, inside its transaction. */
  guard?: Guard
}) {
  const { name, prefix, path, shape, view, find, changeQuery, readableBy = 'anyone' } = definition
  const params = { id: prefix } as const
  const one = `${path}/:id` as const
  const what = idPrefixes[prefix]

  async function existing(db: Db, caller: Caller, id: Id<P>, lock: boolean): Promise<Row> {
    const row = await find(db, caller, id, lock)
    if (!row) throw notFound(prefix)
    return row
  }

  /** One transaction for the guard, the change and its audit event. */
  const change = <Result>(
    request: Handling<object, unknown, unknown>,
    work: (tx: Db) => Promise<Result>,
  ): Promise<Result> =>
    transaction(request.db, (tx) =>
      definition.guard ? definition.guard(tx, request as never, () => work(tx)) : work(tx),
    )

  return {
    create: <B extends TObject>(
      writing: Writing & {
        body: B
        insert: (tx: Db, request: Handling<object, object, Static<B>>) => Promise<Row>
        /** What only the response to creation tells. */
        toldOnce?: (row: Row) => Partial<Static<Shape>>
      },
    ): Route =>
      route({
        operation: `${name}.create`,
        summary: writing.summary ?? `Create a ${what}`,
        method: 'POST',
        path,
        query: changeQuery,
        body: writing.body,
        success: 201,
        response: shape,
        access: writing.access,
        errors: writing.errors,
        handle: (request) =>
          change(request, async (tx) => {
            const row = await writing.insert(tx, request)
            const created = view(row, request.uri)
            await recordChange(tx, request.origin, { resourceId: created.id, before: null, after: created })
            return { ...created, ...writing.toldOnce?.(row) }
          }),
      } as RouteShape<Record<never, IdPrefix>, TObject, B, Shape>),

    get: (): Route =>
      route({
        operation: `${name}.get`,
        summary: `Get a ${what}`,
        method: 'GET',
        path: one,
        params,
        success: 200,
        response: shape,
        access: readableBy,
        handle: async ({ db, caller, params, uri }) => view(await existing(db, caller, params.id as Id<P>, false), uri),
      }),

    list: <Q extends TObject>(reading: {
      field: string
      query: Q
      select: (db: Db, caller: Caller, query: Static<Q>) => Promise<Row[]>
    }): Route =>
      route({
        operation: `${name}.list`,
        summary: `List every ${what} of the account, newest first`,
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
      writing: Writing & {
        body: B
        apply: (tx: Db, request: Handling<Params<P>, object, Static<B>>, before: Row) => Promise<Row>
      },
    ): Route =>
      route({
        operation: `${name}.update`,
        summary: writing.summary ?? `Change a ${what}. What is left out stays as it is`,
        method: 'PATCH',
        path: one,
        params,
        query: changeQuery,
        body: writing.body,
        success: 200,
        response: shape,
        access: writing.access,
        errors: writing.errors,
        handle: (request) =>
          change(request, async (tx) => {
            const before = await existing(tx, request.caller, request.params.id as Id<P>, true)
            const after = view(await writing.apply(tx, request as never, before), request.uri)
            await recordChange(tx, request.origin, { resourceId: after.id, before: view(before, request.uri), after })
            return after
          }),
      } as RouteShape<{ id: P }, TObject, B, Shape>),

    delete: (
      writing: Writing & {
        remove: (tx: Db, request: Handling<Params<P>, object, void>, before: Row) => Promise<unknown>
      },
    ): Route =>
      route({
        operation: `${name}.delete`,
        summary: writing.summary ?? `Delete a ${what}`,
        method: 'DELETE',
        path: one,
        params,
        query: changeQuery,
        success: 204,
        access: writing.access,
        errors: writing.errors,
        handle: async (request) =>
          change(request, async (tx) => {
            const before = await existing(tx, request.caller, request.params.id as Id<P>, true)
            await writing.remove(tx, request as never, before)
            await recordChange(tx, request.origin, {
              resourceId: request.params.id as Id<P>,
              before: view(before, request.uri),
              after: null,
            })
          }) as never,
      }),
  }
}
