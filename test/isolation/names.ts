import { hash } from 'node:crypto'
import { type DbPool, many } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import type { Route } from '../../src/http/route.ts'
import { type IdPrefix, idPrefixes, toUuid } from '../../src/kernel/ids.ts'
import type { Account } from '../harness/control_plane.ts'
import { writtenLater } from './matrix.ts'

/** A place in a body that names something which may be another account's: `hostports[]`, `backend.backend_id`. */
export type Name = { place: string; hostport?: { port?: number }; prefixes: IdPrefix[] }
/**
 * What a second account gets when it names what the first has. In every case the first has afterwards what it had before.
 *  taken: 409, for the same hostport and for each that overlaps it.
 *  unknown: 400, as for an id that does not exist.
 *  ignored: success without it, as for an id that does not exist.
 *  allowed: the second gets its own, and shares nothing but the text.
 */
export type Crossing = 'taken' | 'unknown' | 'ignored' | 'allowed'

type Schema = {
  properties?: Record<string, Schema>
  items?: Schema
  anyOf?: Schema[]
  pattern?: string
  propertyNames?: Schema
  patternProperties?: Record<string, Schema>
  additionalProperties?: Schema | boolean
  'x-hostport'?: { port?: number }
}

const prefixesIn = (pattern = ''): IdPrefix[] =>
  [...pattern.matchAll(/\^([a-z]+)_\[0-7\]/g)]
    .map(([, prefix = '']) => prefix)
    .filter((prefix): prefix is IdPrefix => prefix in idPrefixes)

/** Every such place of the body, found in its schema: a new field is found without being listed. */
export function namesIn(route: Pick<Route, 'body' | 'params'>): Name[] {
  const ofPath = new Set(Object.keys(route.params ?? {}))
  return walk((route.body ?? {}) as Schema, '').filter(({ place }) => !ofPath.has(place))
}

function walk(schema: Schema, place: string): Name[] {
  const below = (name: string) => (place ? `${place}.${name}` : name)
  const prefixes = prefixesIn(schema.pattern)
  const keys = [schema.propertyNames?.pattern, ...Object.keys(schema.patternProperties ?? {})].flatMap(prefixesIn)
  return [
    ...(schema['x-hostport'] ? [{ place, hostport: schema['x-hostport'], prefixes: [] }] : []),
    ...(prefixes.length ? [{ place, prefixes }] : []),
    ...(keys.length ? [{ place: `${place}{}`, prefixes: keys }] : []),
    ...Object.entries(schema.properties ?? {}).flatMap(([name, inner]) => walk(inner, below(name))),
    ...(schema.items ? walk(schema.items, `${place}[]`) : []),
    ...(schema.anyOf ?? []).flatMap((inner) => walk(inner, place)),
  ]
}

/** The body with a value in that place. */
export function withName(body: object, place: string, value: string): object {
  const [first = '', ...rest] = place.split('.')
  const name = first.replace(/(\[\]|\{\})$/, '')
  if (rest.length) return { ...body, [name]: withName({}, rest.join('.'), value) }
  if (first.endsWith('[]')) return { ...body, [name]: [value] }
  return { ...body, [name]: first.endsWith('{}') ? { [value]: 1 } : value }
}

/** Names without an answer, and answers without a name. */
export function gapsIn(routes: readonly Pick<Route, 'operation' | 'body' | 'params'>[], crossings: object): string[] {
  const found = routes.flatMap((route) => namesIn(route).map(({ place }) => `${route.operation} ${place}`))
  return [
    ...found.filter((name) => !Object.hasOwn(crossings, name)).map((name) => `${name} has no answer`),
    ...Object.keys(crossings)
      .filter((name) => !found.includes(name))
      .map((name) => `${name} has an answer, but no operation names it`),
  ]
}

/** Every row of an account, but for those that count its own calls. */
export async function contentsOfAccount(db: DbPool, { accountId }: Account): Promise<Record<string, string>> {
  const tables = await many<{ name: string }>(
    db,
    sql`
    select c.relname as name from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'account_id'
    where c.relkind = 'r' and c.relnamespace = 'public'::regnamespace and c.relname <> all (${writtenLater}::text[])
    order by 1`,
  )
  const contents: Record<string, string> = {}
  for (const { name } of tables) {
    const text = `select t::text as row from ${name} t where account_id = $1 order by 1`
    const { rows } = await db.query({ text, values: [toUuid(accountId as `ac_${string}`)] })
    contents[name] = `${rows.length} ${hash('sha256', JSON.stringify(rows), 'hex')}`
  }
  return contents
}
