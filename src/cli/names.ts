// Accepts a name in place of an id, so that people need not look up 30 characters.
import { closest } from '../kernel/closest.ts'
import type { Connection } from './call.ts'
import { Failure } from './exits.ts'
import type { Operation } from './operation.ts'
import { operations } from './operations.ts'
import { log } from './output/terminal.ts'
import { allPages } from './pages.ts'
import { looksLikeId } from './request.ts'

type Row = Record<string, unknown> & { id: string }

/** Fields by which people recognize a resource, if a list has them. */
const nameFields = ['name', 'description', 'domain', 'email', 'hostports', 'match', 'address']

/** The operation that lists the candidates of a path parameter: the list at the preceding path. */
export function listOf({ path }: Operation, parameter: string): Operation | undefined {
  const [before = ''] = path.split(`/{${parameter}}`)
  const list = operations.find((each) => each.method === 'GET' && each.path === before && each.listField)
  return list?.fields.includes('id') && nameFields.some((name) => list.fields.includes(name)) ? list : undefined
}

export async function rowsOf(connection: Connection, list: Operation, ids: Readonly<Record<string, string>>) {
  const path = list.path.replaceAll(/\{(\w+)\}/g, (_, name) => encodeURIComponent(ids[name] ?? ''))
  const request = { method: 'GET', path, query: { limit: 100 }, accept: 'application/json' }
  const { text } = await allPages(connection, list.listField ?? '', request)
  return (JSON.parse(text) as Record<string, Row[]>)[list.listField ?? ''] ?? []
}

const namesOf = (row: Row): string[] =>
  nameFields.flatMap((field) => row[field] ?? []).filter((name) => typeof name === 'string')

/** The id of the only resource with this name. */
async function idNamed(
  connection: Connection,
  list: Operation,
  name: string,
  ids: Readonly<Record<string, string>>,
): Promise<string> {
  const rows = await rowsOf(connection, list, ids)
  const found = rows.filter((row) => namesOf(row).includes(name))
  const [only, ...others] = found
  if (only && others.length === 0) {
    log(`${name}: ${only.id}`)
    return only.id
  }
  if (only)
    throw new Failure(
      'refused',
      `${found.length} are called '${name}'; use an id`,
      found.slice(0, 10).map(({ id }) => id),
    )
  const meant = closest(name, rows.flatMap(namesOf))
  throw new Failure('notFound', `nothing in '${list.words.join(' ')}' is called '${name}'`, [
    ...(meant ? [`Did you mean '${meant}'?`] : []),
    `See: gatehouse ${list.words.join(' ')}`,
  ])
}

/** The arguments of an operation, with names replaced by ids. */
export async function withIds(
  connection: Connection,
  operation: Operation,
  typed: readonly string[],
): Promise<string[]> {
  const ids: Record<string, string> = {}
  for (const [index, { name, place }] of operation.positionals.entries()) {
    const value = typed[index] ?? ''
    const list = place === 'path' && !looksLikeId(value) ? listOf(operation, name) : undefined
    ids[name] = list ? await idNamed(connection, list, value, ids) : value
  }
  return operation.positionals.map(({ name }) => ids[name] ?? '')
}
