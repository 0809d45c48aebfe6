import assert from 'node:assert/strict'
import { hash, randomUUID } from 'node:crypto'
import { type DbPool, many } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import type { Route } from '../../src/http/route.ts'
import { type IdPrefix, newId, newUuid } from '../../src/kernel/ids.ts'
import type { Answer, Client, Options } from '../harness/client.ts'
import type { Account, ControlPlane } from '../harness/control_plane.ts'

export type Ids = Record<string, string>
export type Call = (ids: Ids, body?: object, query?: string) => Promise<Answer>

/** Every caller in the matrix: those who must be refused, and those with a valid key. */
export type Cast = {
  admin: Account
  member: Client
  viewer: Client
  otherAdmin: Account
  refused: Record<'no key' | 'malformed token' | 'revoked key' | "inactive bot's key", [Client, Options?]>
}

export async function gatherCast({ newAccount, clientFor }: ControlPlane): Promise<Cast> {
  const [admin, otherAdmin] = [await newAccount(), await newAccount()]
  const keyOf = async (owner_id: string) => (await admin('POST', '/api_keys', { owner_id })).body
  const member = await admin('POST', '/users', { name: 'Mo', email: `${randomUUID()}@example.com` })
  const viewer = await admin('POST', '/users', { name: 'Vi', email: `${randomUUID()}@example.com`, role: 'viewer' })
  const bot = await admin('POST', '/bot_users', { name: 'Bo' })
  const [memberKey, viewerKey, botKey, revokedKey] = [
    await keyOf(member.body.id),
    await keyOf(viewer.body.id),
    await keyOf(bot.body.id),
    await keyOf(admin.adminId),
  ]
  assert.equal((await admin('PATCH', bot.body.uri, { active: false })).status, 200)
  assert.equal((await admin('DELETE', revokedKey.uri)).status, 204)
  return {
    admin,
    member: clientFor(memberKey.token),
    viewer: clientFor(viewerKey.token),
    otherAdmin,
    refused: {
      'no key': [admin, { headers: { authorization: undefined } }],
      // The last character belongs to the checksum.
      'malformed token': [clientFor(admin.token.slice(0, -1) + (admin.token.endsWith('0') ? '1' : '0'))],
      'revoked key': [clientFor(revokedKey.token)],
      "inactive bot's key": [clientFor(botKey.token)],
    },
  }
}

export const callOf =
  (route: Route, client: Client, options?: Options): Call =>
  (ids, body, query = '') => {
    const path = route.path.replaceAll(/:(\w+)/g, (_, name) => ids[name] ?? assert.fail(`no id for :${name}`))
    return client(route.method, path + query, body, options)
  }

/** An answer without what differs from one call to the next: two that are equal here tell a caller the same. */
export function tellingPart({ status, headers, text }: Answer): object {
  const operationId = headers.get('operation-id') ?? ''
  assert.notEqual(operationId, '')
  const shown = [...headers].map(([name, value]) => (/^(date|operation-id)$/.test(name) ? name : `${name}: ${value}`))
  return { status, headers: shown.sort(), body: text.replaceAll(operationId, 'op_') }
}

export type Variation = { parameter: string; what: 'foreign' | 'absent' | 'malformed' | 'mismatched'; ids: Ids }

/**
 * Each parameter of the path in turn is not the account's own, while the others are. With two parameters there is one
 * more way to be wrong: both are the account's own, but do not belong together.
 */
export function variationsOf(
  params: Record<string, IdPrefix | 'request'>,
  { own, foreign, sibling }: Record<'own' | 'foreign' | 'sibling', Ids>,
): Variation[] {
  return Object.entries(params).flatMap(([parameter, prefix]) => {
    const vary = (what: Variation['what']) => (value: string | undefined) => ({
      parameter,
      what,
      ids: { ...own, [parameter]: value ?? assert.fail(`path() made no ${parameter}`) },
    })
    return [
      ...[foreign[parameter]].map(vary('foreign')),
      ...[absentId(prefix)].map(vary('absent')),
      ...malformedIds(prefix).map(vary('malformed')),
      ...(Object.keys(params).length > 1 ? [sibling[parameter]].map(vary('mismatched')) : []),
    ]
  })
}

/** The id of a request is a bare UUIDv7: it has the form that clients get as X-Request-Id. */
export const absentId = (kind: IdPrefix | 'request'): string => (kind === 'request' ? newUuid() : newId(kind))

function malformedIds(prefix: IdPrefix | 'request'): string[] {
  if (prefix === 'request') return malformedUuids()
  const good = newId(prefix)
  const other: IdPrefix = prefix === 'usr' ? 'bot' : 'usr'
  const digits = good.slice(prefix.length + 1)
  return [
    'x',
    digits,
    `${prefix}_`,
    good.slice(0, -1),
    `${good}0`,
    // Too large for 128 bits, and of another kind, each otherwise as it should be.
    `${prefix}_8${digits.slice(1)}`,
    newId(other),
    good.toUpperCase(),
    `${good}%00`,
    `..%2f${good}`,
    "'%20or%20true--",
    'a'.repeat(500),
  ]
}

function malformedUuids(): string[] {
  const good = newUuid()
  return [
    'x',
    good.slice(0, -1),
    `${good}0`,
    good.replaceAll('-', ''),
    // Another UUID version.
    `${good.slice(0, 14)}4${good.slice(15)}`,
    newId('usr'),
    `${good.slice(0, -1)}A`,
    `${good}%00`,
    `..%2f${good}`,
    "'%20or%20true--",
    'a'.repeat(500),
  ]
}

/** That a key was used, from where, and what rules decided: written by itself a moment after any call. */
export const writtenLater = [
  'api_key_uses',
  'seen_addresses',
  'address_outcomes',
  'ip_rule_hits',
  'ip_rule_hit_days',
  'alert_turns',
]
/** Written by themselves, too, a moment after the refusal. */
const notAFailedSignIn = `where operation <> 'sign_in.failed'`

/**
 * Where every row of every table is and which transaction wrote it, as one value per table: two that are equal had no
 * change between them, not even an update to the same values.
 */
export async function contentsOf(db: DbPool): Promise<Record<string, string>> {
  const tables = await many<{ name: string }>(
    db,
    sql`
    select relname as name from pg_class
    where relkind = 'r' and relnamespace = 'public'::regnamespace and relname <> all (${writtenLater}::text[])
    order by 1`,
  )
  const versions = tables.map(
    ({ name }) => `
    select '${name}' as name, count(*) || ' rows ' || coalesce(sum(hashtextextended(ctid || ' ' || xmin, 0)), 0) as contents
    from ${name} ${name.startsWith('audit_events_') ? notAFailedSignIn : ''}`,
  )
  const text = versions.join(' union all ')
  // Under a name, because planning it takes twice as long as running it, and it runs hundreds of times.
  const { rows } = await db.query({ name: hash('md5', text), text, values: [] })
  return Object.fromEntries(rows.map(({ name, contents }) => [name, contents]))
}

/** Which accounts have an audit event of this operation. */
export async function auditedAccounts(db: DbPool, { headers }: Answer): Promise<string[]> {
  const rows = await many<{ account_id: string }>(
    db,
    sql`select distinct account_id from audit_events where operation_id = ${headers.get('operation-id')}`,
  )
  return rows.map(({ account_id }) => account_id)
}

/** What is missing before the matrix can run, as sentences. */
export function gapsBetween(routes: readonly Route[], expectations: Record<string, { path?: unknown }>): string[] {
  const operations = new Set(routes.map(({ operation }) => operation))
  return [
    ...routes
      .filter(({ operation }) => !expectations[operation])
      .map(({ operation }) => `${operation} has no expectation`),
    ...Object.keys(expectations)
      .filter((operation) => !operations.has(operation))
      .map((operation) => `${operation} is expected, but there is no such route`),
    ...routes
      .filter(
        ({ path, params = {} }) =>
          (path.match(/:\w+/g) ?? []).join() !==
          Object.keys(params)
            .map((name) => `:${name}`)
            .join(),
      )
      .map(({ operation }) => `${operation} does not say what each parameter of its path identifies`),
    ...routes
      .filter(({ operation, path }) => path.includes(':') && expectations[operation] && !expectations[operation].path)
      .map(({ operation }) => `${operation} needs path() in its expectation`),
  ]
}
