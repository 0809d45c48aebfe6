import type { TObject } from 'typebox'
import { etagOf } from '../../http/preconditions.ts'
import { type Handling, type Route, route } from '../../http/route.ts'
import { Closed, EdgeChangeQuery } from '../../http/wire.ts'
import { Refusal } from '../../kernel/errors.ts'
import { changePart } from '../../operations/change_routes.ts'
import { existing, type Guard, type ItemParams, type Resource } from '../../operations/resource.ts'
import { setModule } from './changes.ts'
import { type EdgeKind, type Module, moduleBodyLimitBytes } from './module.ts'
import { type ModuleName, modulesOn } from './modules.ts'
import { type EdgeRow, removeModule } from './store.ts'

/** PUT, GET and DELETE of each module below the edge's path. */
export const moduleRoutes = <P extends ItemParams, Row extends EdgeRow, Shape extends TObject>(
  edges: Resource<P, Row, Shape>,
  kind: EdgeKind,
): Route[] =>
  modulesOn(kind).flatMap((entry) => [
    replaceModule(edges, kind, entry),
    getModule(edges, entry),
    deleteModule(edges, entry),
  ])

type Entry = [ModuleName, Module]

/** Only the `ip_restriction` module decides about addresses. */
const guardOn = (edges: { readonly guard?: Guard }, name: ModuleName): Guard | undefined =>
  name === 'ip_restriction' ? edges.guard : undefined

const replaceModule = <P extends ItemParams, Row extends EdgeRow, Shape extends TObject>(
  edges: Resource<P, Row, Shape>,
  kind: EdgeKind,
  [name, module]: Entry,
): Route =>
  route({
    operation: `${edges.name}.${name}.replace`,
    summary: `Replace the ${name} module`,
    method: 'PUT',
    path: `${edges.path}/:id/${name}`,
    params: edges.params,
    query: Closed({ ...guardOn(edges, name)?.query.properties, ...EdgeChangeQuery }),
    body: module.body,
    acceptsResponse: true,
    bodyLimitBytes: moduleBodyLimitBytes,
    check: (body, _settings, isVendorClient) => module.check(body, '', isVendorClient),
    success: 200,
    response: module.shape,
    tagged: true,
    access: 'anyone',
    errors: ['ERR_PRECONDITION_FAILED', ...(guardOn(edges, name)?.errors ?? [])],
    async handle(request) {
      const { after, generation } = await changePart(edges, request, {
        name,
        guard: guardOn(edges, name),
        show: (row) => shownOn(row, [name, module], request),
        apply: (tx, { id }) => setModule(tx, request.caller, { kind, id }, [name, module], request.body),
      })
      if (!after) throw new Error(`the ${name} module was set, and is not there`)
      return { body: after, etag: etagOf(after), generation }
    },
  })

const getModule = <P extends ItemParams, Row extends EdgeRow, Shape extends TObject>(
  edges: Resource<P, Row, Shape>,
  [name, module]: Entry,
): Route =>
  route({
    operation: `${edges.name}.${name}.get`,
    summary: `Get the ${name} module`,
    method: 'GET',
    path: `${edges.path}/:id/${name}`,
    params: edges.params,
    success: 200,
    response: module.shape,
    tagged: true,
    access: 'anyone',
    async handle(request) {
      const body = shownOn(await existing(edges, request.db, request, false), [name, module], request)
      if (!body) throw new Refusal('ERR_NOT_FOUND', `The ${name} module is not set.`)
      return { body, etag: etagOf(body) }
    },
  })

const deleteModule = <P extends ItemParams, Row extends EdgeRow, Shape extends TObject>(
  edges: Resource<P, Row, Shape>,
  [name, module]: Entry,
): Route =>
  route({
    operation: `${edges.name}.${name}.delete`,
    summary: `Delete the ${name} module`,
    method: 'DELETE',
    path: `${edges.path}/:id/${name}`,
    params: edges.params,
    query: Closed({ ...guardOn(edges, name)?.query.properties, ...EdgeChangeQuery }),
    success: 204,
    access: 'anyone',
    errors: ['ERR_PRECONDITION_FAILED', ...(guardOn(edges, name)?.errors ?? [])],
    async handle(request) {
      const { generation } = await changePart(edges, request, {
        name,
        guard: guardOn(edges, name),
        show: (row) => shownOn(row, [name, module], request),
        apply: (tx, { id }) => removeModule(tx, request.caller, id, name),
      })
      return { body: undefined, generation }
    },
  })

type UriOf = Pick<Handling<unknown, unknown, unknown>, 'uri'>
const shownOn = (row: EdgeRow, [name, module]: Entry, { uri }: UriOf) => {
  const stored = row.modules[name]
  return stored && module.show(stored, uri)
}
