import { randomUUID } from 'node:crypto'
import { nextQuery } from '../../../clients/typescript/src/pages.ts'
import { type Connection, call } from '../call.ts'
import { usageFailure } from '../exits.ts'
import { callable, type Entry } from './catalog.ts'

export type Values = Readonly<Record<string, unknown>>
export type Read = {
  readonly body: Values
  readonly etag: string | undefined
  readonly next: Values | undefined
}
export type Sent = { readonly parameters?: Values; readonly body?: Values }

/** Calls an operation of the catalog. Tools have no other way to the service. */
export async function send(connection: Connection, id: string, { parameters = {}, body }: Sent = {}): Promise<Read> {
  const operation = callable.get(id)
  if (!operation) throw usageFailure(`'${id}' cannot be called.`, 'list_operations shows what can be read.')
  const inPath = checkParameters(operation, parameters)
  const { text, headers } = await call(connection, {
    method: operation.method,
    path: operation.path.replaceAll(/\{(\w+)\}/g, (_, name) => encodeURIComponent(String(inPath[name]))),
    query: Object.fromEntries(Object.entries(parameters).filter(([name]) => !Object.hasOwn(inPath, name))),
    accept: 'application/json',
    ...(operation.body && { body: JSON.stringify(body ?? {}) }),
    headers: id === 'change_sets.create' ? { 'idempotency-key': randomUUID() } : {},
  })
  const received = text === '' ? {} : (JSON.parse(text) as Values)
  const { next_page_uri: nextPage, ...shown } = received
  const query = nextQuery(nextPage as string | null | undefined)
  return { body: shown, etag: headers.get('etag'), next: query && { ...inPath, ...query } }
}

export function refuseUnknown({ id, parameters: known }: Entry, given: Values): void {
  for (const name of Object.keys(given))
    if (!known.some((parameter) => parameter.name === name))
      throw usageFailure(`${id} has no parameter '${name}' here.`, hintFor(id))
}
const hintFor = (id: string): string => `describe_operation shows the parameters of ${id}.`

/** Returns the path parameters. Checks their form, because `..` would lead to another path. */
function checkParameters(operation: Entry, given: Values): Values {
  refuseUnknown(operation, given)
  const { id, parameters: known } = operation
  const inPath = known.filter((parameter) => parameter.in === 'path').map(({ name }) => name)
  for (const name of inPath)
    if (!/^[\w-]{1,100}$/.test(String(given[name] ?? '')))
      throw usageFailure(`${id} needs the parameter '${name}': an id, as a list shows it.`, hintFor(id))
  return Object.fromEntries(inPath.map((name) => [name, given[name]]))
}
