import type { Static, TObject } from 'typebox'
import type { Db } from '../db/pool.ts'
import { type ParamsOf, type Route, route } from '../http/route.ts'
import { ListOf } from '../http/wire.ts'
import type { Caller } from '../identity/caller.ts'
import { idPrefixes, manyOf } from '../kernel/ids.ts'
import { toPage } from '../kernel/paging.ts'
import { existing, type ItemParams, nameOf, presented, type Resource, withStatusOf } from './resource.ts'

type Reading = Pick<Route, 'access'> & { readonly summary?: string }

/** GET route of one resource, with its ETag. */
export const getRoute = <P extends ItemParams, Row, Shape extends TObject>(
  resource: Resource<P, Row, Shape>,
  { access, summary = `Get ${nameOf(resource)}` }: Reading,
): Route =>
  route({
    operation: `${resource.name}.get`,
    summary,
    method: 'GET',
    path: `${resource.path}/:id`,
    params: resource.params,
    success: 200,
    response: resource.shape,
    tagged: true,
    access,
    async handle(request) {
      const row = await existing(resource, request.db.lookUps, request, false)
      return presented(resource, request, resource.view(row, request.uri))
    },
  })

/** GET route of a page, newest first, with the rows under `field`. */
export function listRoute<P extends ItemParams, Row, Shape extends TObject, Q extends TObject>(
  resource: Resource<P, Row, Shape>,
  options: Reading & {
    readonly field: string
    readonly query: Q
    readonly select: (db: Db, caller: Caller, query: Static<Q>, parents: ParamsOf<Omit<P, 'id'>>) => Promise<Row[]>
  },
): Route {
  const { name, path, params, shape, view } = resource
  const { access, field, query, select } = options
  // Typed as a plain object, because a type cannot express a field name given at run time.
  const response: TObject = ListOf(field, shape)
  const { id: _, ...parents } = params
  return route({
    operation: `${name}.list`,
    summary: options.summary ?? `List ${manyOf(idPrefixes[params.id])}, newest first`,
    method: 'GET',
    path,
    ...(Object.keys(parents).length > 0 && { params: parents }),
    query,
    success: 200,
    response,
    access,
    async handle(request) {
      const rows = await select(request.db, request.caller, request.query, request.params)
      const listed = path.replaceAll(/:(\w+)/g, (_match, name) => String(Reflect.get(request.params, name)))
      const { items, ...page } = toPage(
        rows.map((row) => view(row, request.uri)),
        request.query,
        request.uri(listed),
      )
      return { body: { [field]: await withStatusOf(resource, request, items), ...page } }
    },
  })
}
