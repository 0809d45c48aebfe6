import { entriesOf, type MapName } from '../../src/agent/haproxy/maps/entries.ts'
import { blobName } from '../../src/distribution/pieces.ts'
import { encodePolicy } from '../../src/distribution/policy_file.ts'
import {
  kindOf,
  type PolicyRecord,
  type RecordKey,
  type RecordKind,
  type RecordValue,
} from '../../src/distribution/records.ts'
import { type Id, type IdPrefix, toId, type Uuid } from '../../src/kernel/ids.ts'
import { parseCidr } from '../../src/kernel/ip/cidr.ts'
import { compilePolicy } from '../../src/kernel/ip/ranges.ts'
import type { Chance } from './chance.ts'
import type { Postgres, Thing, Writes } from './postgres.ts'

const uuid = (number: number): Uuid => `01900000-0000-7000-8000-${number.toString(16).padStart(12, '0')}` as Uuid
const idOf = <P extends IdPrefix>(prefix: P, number: number): Id<P> => toId(prefix, uuid(number))

/** Policies that differ. Every other one is sent in pieces. */
const policies = Array.from({ length: 6 }, (_, index) => {
  const { cidr } = parseCidr(`10.${index}.0.0/16`)
  if (!cidr) throw new Error('not a network')
  const { hash, bytes, pieces } = encodePolicy(compilePolicy([{ cidr, action: 'allow' }]))
  const file = { hash, bytes: bytes.length }
  const value: PolicyRecord =
    index % 2 === 0 ? { ...file, inline: bytes.toString('base64') } : { ...file, chunks: pieces.map(blobName) }
  return { value, blobs: index % 2 === 0 ? [] : pieces }
})

type Account = {
  id: Id<'ac'>
  uuid: Uuid
  edge: RecordKey
  host: string
  policy: RecordKey
  backend: RecordKey
  restrictions: RecordKey
}

/** An account has one host name; routes, which come and go; one policy, one backend, and its restrictions. */
const accountOf = (number: number): Account => ({
  id: idOf('ac', number),
  uuid: uuid(number),
  edge: `https.${idOf('edghts', number)}`,
  host: `a${number}.example`,
  policy: `policy.${idOf('ipp', number)}`,
  backend: `backend.${idOf('bkdst', number)}`,
  restrictions: `restrictions.${idOf('ac', number)}`,
})
const nameOf = (key: RecordKey): string => key.slice(key.indexOf('.') + 1)
const paths = ['/', '/admin', '/admin/keys']

/** Changes as accounts make them, one after another. */
export function createAccounts(chance: Chance, postgres: Postgres, count: number) {
  const accounts = Array.from({ length: count }, (_, index) => accountOf(index + 1))
  let made = 100

  const thing = (account: Account, value: RecordValue, blobs: Buffer[] = []): Thing => ({
    accountId: account.uuid,
    value,
    blobs,
  })
  const route = (account: Account, match: string): Thing =>
    thing(account, {
      account: account.id,
      edge: nameOf(account.edge) as Id<'edghts'>,
      match_type: 'path_prefix',
      match,
      backend: nameOf(account.backend) as Id<'bkdst'>,
      policies: match === '/' ? null : [nameOf(account.policy) as Id<'ipp'>],
      headers: null,
      ...(chance.is(0.5) && { websocket: false as const }),
    })
  const policy = (account: Account): Thing => {
    const { value, blobs } = chance.pick(policies)
    return thing(account, value, blobs)
  }
  const backend = (account: Account): Thing =>
    thing(account, { host: `192.0.2.${chance.between(1, 250)}`, port: 8_080, tls: false })
  const restrictions = (account: Account): Thing =>
    thing(account, {
      sets: chance.is(0.5)
        ? []
        : [{ id: idOf('ipx', 1), enforced: chance.is(0.5), policies: [nameOf(account.policy) as Id<'ipp'>] }],
    })

  const routesOf = (account: Account, things: ReadonlyMap<RecordKey, Thing>) =>
    [...things].filter(([key, { accountId }]) => kindOf(key) === 'route' && accountId === account.uuid)

  function changeRoutes(account: Account, things: ReadonlyMap<RecordKey, Thing>): Writes {
    const match = chance.pick(paths)
    const found = routesOf(account, things).find(([, { value }]) => (value as { match: string }).match === match)
    if (!found) return new Map<RecordKey, Thing>([[`route.${idOf('edghtsrt', ++made)}`, route(account, match)]])
    return new Map([[found[0], chance.is(0.6) ? route(account, match) : null]])
  }

  function make(account: Account, things: ReadonlyMap<RecordKey, Thing>): Writes {
    if (!things.has(account.policy))
      return new Map([
        [account.policy, policy(account)],
        [account.backend, backend(account)],
      ])
    if (!things.has(account.edge))
      return new Map<RecordKey, Thing>([
        [account.edge, thing(account, { hostports: [`${account.host}:443`] })],
        [account.restrictions, restrictions(account)],
      ])
    const choice = chance.next()
    if (choice < 0.55) return changeRoutes(account, things)
    if (choice < 0.7) return new Map([[account.policy, policy(account)]])
    if (choice < 0.8) return new Map([[account.backend, backend(account)]])
    if (choice < 0.92) return new Map([[account.restrictions, restrictions(account)]])
    // With everything under it.
    const gone = [account.edge, ...routesOf(account, things).map(([key]) => key)]
    return new Map(gone.map((key) => [key, null]))
  }

  return {
    change(): void {
      const account = chance.pick(accounts)
      postgres.change(account.uuid, (things) => make(account, things), account.host)
    },
    move(): void {
      const account = chance.pick(accounts)
      postgres.move(account.uuid, account.host)
    },
  }
}

/** Where each kind of record shows in HAProxy. */
export const mapOf: Partial<Record<RecordKind, MapName>> = {
  https: 'host',
  route: 'route',
  policy: 'policy',
  backend: 'backend',
  restrictions: 'restrictions',
}

/** The value that the proxy gets for a record, as the agent prepares it here. */
export function preparedOf(key: RecordKey, value: RecordValue): unknown {
  if (kindOf(key) === 'policy') return (value as PolicyRecord).hash
  if (kindOf(key) !== 'backend') return value
  const { host, ...rest } = value as { host: string }
  return { ...rest, host, address: host }
}

/** The one entry by which a record is recognized. */
export function entryOf(key: RecordKey, value: RecordValue): { map: MapName; key: string; value: string } {
  const map = mapOf[kindOf(key)] as MapName
  const found = entriesOf(key, preparedOf(key, value)).find((entry) => entry.map === map)
  if (!found) throw new Error(`${key} has no entry in ${map}`)
  return { map, key: found.key, value: found.value }
}
