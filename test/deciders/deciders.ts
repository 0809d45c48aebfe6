import type { Db } from '../../src/db/pool.ts'
import { parseAddress } from '../../src/kernel/ip/address.ts'
import { parseCidr } from '../../src/kernel/ip/cidr.ts'
import { type Decision, decide } from '../../src/kernel/ip/decide.ts'
import { compilePolicy } from '../../src/kernel/ip/ranges.ts'
import type { Rule, World } from './cases.ts'

/** The one that requests meet. */
export function ours({ policies, addresses }: World): Decision[] {
  const compiled = policies.map((rules) =>
    compilePolicy(
      rules.map(({ action, cidr: text }) => {
        const { cidr, fault } = parseCidr(text)
        if (fault !== undefined) throw new Error(`${text} ${fault}`)
        return { action, cidr }
      }),
    ),
  )
  return addresses.map((text) => decide(compiled, parseAddress(text)))
}

/** PostgreSQL's own arithmetic, for many worlds in one statement. It does not unmap by itself, so it is asked to. */
export async function postgres(db: Db, worlds: World[]): Promise<boolean[][]> {
  const rules = worlds.flatMap(({ policies }, world) => policies.flat().map((rule) => ({ world, ...rule })))
  const addresses = worlds.flatMap(({ addresses }, world) => addresses.map((ip) => ({ world, ip })))
  const { rows } = await db.query({
    text: `
      with rules as materialized (
        select world, action, case when masklen(c) >= 96 and c <<= '::ffff:0:0/96'
          then set_masklen('0.0.0.0'::inet + (host(c)::inet - '::ffff:0:0'::inet), masklen(c) - 96)::cidr else c end as cidr
        from unnest($1::int[], $2::text[], $3::cidr[]) as sent (world, action, c)
      ), addresses as materialized (
        select world, n, case when a <<= '::ffff:0:0/96' then '0.0.0.0'::inet + (a - '::ffff:0:0'::inet) else a end as ip
        from unnest($4::int[], $5::inet[]) with ordinality as sent (world, a, n)
      )
      select coalesce(bool_or(r.action = 'allow') and not bool_or(r.action = 'deny'), false) as allowed
      from addresses a left join rules r on r.world = a.world and r.cidr >>= a.ip
      group by a.n order by a.n`,
    values: [
      rules.map(({ world }) => world),
      rules.map(({ action }) => action),
      rules.map(({ cidr }) => cidr),
      addresses.map(({ world }) => world),
      addresses.map(({ ip }) => ip),
    ],
  })
  let next = 0
  return worlds.map(({ addresses }) => addresses.map(() => rows[next++].allowed))
}

const mappedBits = '0'.repeat(80) + '1'.repeat(16)

/** 128 characters of 0 and 1, IPv4 as its mapped address; undefined for text that is not an address. */
export function bitString(text: string): string | undefined {
  const quad = /^(\d+)\.(\d+)\.(\d+)\.(\d+)$/.exec(text)?.slice(1)
  if (quad?.every((part) => String(Number(part)) === part && Number(part) < 256))
    return mappedBits + quad.map((part) => Number(part).toString(2).padStart(8, '0')).join('')
  // The URL parser of the platform writes every IPv6 address in one form, and knows no zones.
  const host =
    /^[0-9a-fA-F:.]+$/.test(text) && text.includes(':') && URL.parse(`http://[${text}]`)?.hostname.slice(1, -1)
  if (!host) return undefined
  const [left = [], right = []] = host.split('::').map((side) => side.split(':').filter(Boolean))
  const groups = host.includes('::') ? [...left, ...Array(8 - left.length - right.length).fill('0'), ...right] : left
  return groups.map((group) => Number.parseInt(group, 16).toString(2).padStart(16, '0')).join('')
}

const familyOf = (bits: string) => (bits.startsWith(mappedBits) ? 4 : 6)

/** What the contract says, as naively as it can be written. */
export function naive(rules: Rule[]): (ip: string) => boolean {
  const prefixes = rules.map(({ action, cidr }) => ({ action, prefix: prefixOf(cidr) }))
  return (ip) => {
    const bits = bitString(ip)
    if (bits === undefined) return false
    const matching = prefixes.filter(({ prefix }) => bits.startsWith(prefix) && familyOf(bits) === familyOf(prefix))
    return matching.some(({ action }) => action === 'allow') && !matching.some(({ action }) => action === 'deny')
  }
}

export function prefixOf(cidr: string): string {
  const [network = '', length] = cidr.split('/')
  const bits = bitString(network) ?? ''
  return length === undefined ? bits : bits.slice(0, Number(length) + (network.includes(':') ? 0 : 96))
}
