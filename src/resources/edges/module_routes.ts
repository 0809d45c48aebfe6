import type { Db } from '../../db/pool.ts'
import { transaction } from '../../db/transaction.ts'
import type { RecordKey } from '../../distribution/records.ts'
import { checkIfMatch, etagOf } from '../../http/preconditions.ts'
import { type Handling, type Route, route } from '../../http/route.ts'
import { Closed, Wait } from '../../http/wire.ts'
import type { Caller } from '../../identity/caller.ts'
import { notFound, Refusal } from '../../kernel/errors.ts'
import { type Id, type IdPrefix, toId } from '../../kernel/ids.ts'
import { record } from '../../operations/change.ts'
import { setModule } from './changes.ts'
import { type EdgeKind, type ModuleName, moduleBodyLimitBytes, modulesOn } from './modules.ts'
import { type EdgeRow, removeModule } from './store.ts'

const WaitQuery = Closed({ wait: Wait })

type Ids<P> = { [K in keyof P]: P[K] extends IdPrefix ? Id<P[K]> : never }

/** PUT, GET and DELETE of every module that edges of a kind carry, each on its own path below the edge's. */
export function moduleRoutes<const P extends Record<string, IdPrefix>, Row extends EdgeRow>(host: {
  kind: EdgeKind
  name: string
  path: `/${string}`
  params: P
  prefix: IdPrefix
  find: (db: Db, caller: Caller, ids: Ids<P>, lock: boolean) => Promise<Row | undefined>
  records: (row: Row) => readonly RecordKey[]
}): Route[] {
  const { name, params, prefix, find } = host

  async function existing(db: Db, request: Handling<object, unknown, unknown>, lock: boolean): Promise<Row> {
    const row = await find(db, request.caller, request.params as Ids<P>, lock)
    if (!row) throw notFound(prefix)
    return row
  }

  return modulesOn(host.kind).flatMap(([moduleName, module]) => {
    const path = `${host.path}/${moduleName}` as const
    const shown = (row: Row, { uri }: Pick<Handling<object, unknown, unknown>, 'uri'>) => {
      const stored = row.modules[moduleName]
      return stored && module.show(stored, uri)
    }

    /** One change of the module, with what every change leaves behind. The edge is held, so that such changes take turns. */
    const change = (request: Handling<object, unknown, unknown>, work: (tx: Db, row: Row) => Promise<void>) =>
      transaction(request.db, async (tx) => {
        const row = await existing(tx, request, true)
        const before = shown(row, request)
        checkIfMatch(request.ifMatch, before)
        await work(tx, row)
        const after = shown(await existing(tx, request, false), request)
        const of = (view: object | undefined) => (view ? { [moduleName]: view } : null)
        await record(tx, request, {
          resourceId: toId(prefix, row.id),
          before: of(before),
          after: of(after),
          records: host.records(row),
        })
        return after
      })

    return [
      route({
        operation: `${name}.${moduleName}.replace`,
        summary: `Replace the ${moduleName} module`,
        method: 'PUT',
        path,
        params,
        query: WaitQuery,
        body: module.body,
        bodyLimitBytes: moduleBodyLimitBytes,
        check: (body, _settings, isVendorClient) => module.check?.(body as never, '', isVendorClient),
        success: 200,
        response: module.shape,
        tagged: true,
        access: 'anyone',
        errors: ['ERR_PRECONDITION_FAILED'],
        async handle(request) {
          const after = await change(request, (tx, row) =>
            setModule(tx, request.caller, row.id, [moduleName, module], request.body as object),
          )
          request.respond('ETag', etagOf(after))
          return after as never
        },
      }),
      route({
        operation: `${name}.${moduleName}.get`,
        summary: `Get the ${moduleName} module`,
        method: 'GET',
        path,
        params,
        success: 200,
        response: module.shape,
        tagged: true,
        access: 'anyone',
        async handle(request) {
          const view = shown(await existing(request.db, request, false), request)
          if (!view) throw notSet(moduleName)
          request.respond('ETag', etagOf(view))
          return view as never
        },
      }),
      route({
        operation: `${name}.${moduleName}.delete`,
        summary: `Delete the ${moduleName} module`,
        method: 'DELETE',
        path,
        params,
        query: WaitQuery,
        success: 204,
        access: 'anyone',
        errors: ['ERR_PRECONDITION_FAILED'],
        async handle(request) {
          await change(request, (tx, row) => removeModule(tx, request.caller, row.id, moduleName))
        },
      }),
    ]
  })
}

const notSet = (name: ModuleName): Refusal => new Refusal('ERR_NOT_FOUND', `The ${name} module is not set.`)
