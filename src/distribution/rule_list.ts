import { type Uuid, uuidOfHex } from '../kernel/ids.ts'
import type { Address } from '../kernel/ip/address.ts'
import { type Cidr, cidrAround, lastAddressOf } from '../kernel/ip/cidr.ts'
import type { DatedRule, DatedRules } from '../kernel/ip/ranges.ts'
import { wordOf } from '../kernel/ip/sweep.ts'
import {
  accountHeader,
  accountHeaderBytes,
  addressBytes,
  type Cut,
  continueTable,
  cutTable,
  type Family,
  type Interval,
  type Layout,
} from './pieces.ts'
import { orderFault } from './policy_file.ts'

/**
 * The rules of a policy before compilation, for nodes to compile them again without expired ones: `GHL1`, the account, the
 * numbers of IPv4 and IPv6 rules, then for each rule its first address, prefix length, action (1 allow, 2 deny), expiry
 * (milliseconds in 6 bytes, 0 for never) and id. In the order of the ranges, wider before narrower.
 */
const magic = 'GHL1'
const idBytes = 16
const expiryBytes = 6
const recordBytes = (family: Family) => addressBytes[family] + 2 + expiryBytes + idBytes
/** A record begins with address and prefix length, which are unique together. */
const keyBytes = (family: Family) => addressBytes[family] + 1
const maxPrefixLength = { 4: 32, 6: 128 } as const

export const ruleListLayout = (accountId: Uuid): Layout => ({
  recordBytes: { 4: recordBytes(4), 6: recordBytes(6) },
  header: (counts) => accountHeader(magic, accountId, counts),
})

/** The rules must come in the order of their ranges. */
export const cutRuleList = (list: DatedRules): Cut => ({
  4: cutTable(encode(list, 4), recordBytes(4), 4),
  6: cutTable(encode(list, 6), recordBytes(6), 6),
})

/**
 * The same result as cutting all rules, provided that `before` was cut from rules that differ only in these regions. `list`
 * must contain every rule inside them and may contain others.
 */
export const continueRuleList = (before: Cut, regions: readonly Cidr[], list: DatedRules): Cut => ({
  4: continueTable(before[4], intervalsOf(regions, list, 4), recordBytes(4), 4),
  6: continueTable(before[6], intervalsOf(regions, list, 6), recordBytes(6), 6),
})

function intervalsOf(regions: readonly Cidr[], list: DatedRules, family: Family): Interval[] {
  const [table, size] = [encode(list, family), recordBytes(family)]
  let at = 0
  const reach = (key: Buffer, orEqual: boolean) => {
    for (; at < table.length; at += size) {
      const order = table.compare(key, 0, key.length, at, at + key.length)
      if (order > 0 || (order === 0 && !orEqual)) break
    }
    return at
  }
  return regions
    .filter(({ network }) => network.family === family)
    .map((region) => {
      const [first, last] = [keyOf(region), keyOf(lastAddressOf(region))]
      return { first, last, records: table.subarray(reach(first, false), reach(last, true)) }
    })
}

function keyOf(cidr: Cidr): Buffer {
  const key = Buffer.alloc(keyBytes(cidr.network.family))
  writeKey(key, 0, cidr)
  return key
}

function writeKey(out: Buffer, at: number, { network, prefixLength }: Cidr): number {
  const words = addressBytes[network.family] / 4
  for (let index = 0; index < words; index++) out.writeUInt32BE(wordOf(network, index), at + 4 * index)
  return out.writeUInt8(prefixLength, at + 4 * words)
}

function encode({ rules, ruleIds }: DatedRules, family: Family): Buffer {
  const out = Buffer.alloc(rules.length * recordBytes(family))
  let at = 0
  for (const [index, { cidr, action, expiresAt = 0 }] of rules.entries()) {
    if (cidr.network.family !== family) continue
    at = writeKey(out, at, cidr)
    at = out.writeUInt8(action === 'allow' ? 1 : 2, at)
    at = out.writeUIntBE(expiresAt, at, expiryBytes)
    at += ruleIds.copy(out, at, index * idBytes, (index + 1) * idBytes)
  }
  return out.subarray(0, at)
}

/** Why the bytes are not a rule list; undefined if they are. */
export function ruleListFault(bytes: Buffer): string | undefined {
  if (bytes.length < accountHeaderBytes || bytes.toString('latin1', 0, 4) !== magic) return 'is not a list of rules'
  const { end4, end6 } = endsOf(bytes)
  if (bytes.length !== end6) return 'has another length than it says'
  return tableFault(bytes.subarray(accountHeaderBytes, end4), 4) ?? tableFault(bytes.subarray(end4), 6)
}

function endsOf(bytes: Buffer) {
  const end4 = accountHeaderBytes + bytes.readUInt32BE(20) * recordBytes(4)
  return { end4, end6: end4 + bytes.readUInt32BE(24) * recordBytes(6) }
}

function tableFault(table: Buffer, family: Family): string | undefined {
  for (let at = 0; at < table.length; at += recordBytes(family)) {
    const prefixLength = table[at + addressBytes[family]] as number
    if (prefixLength > maxPrefixLength[family]) return 'has an unknown prefix length'
    const key = keyOf(cidrAround(addressAt(table, at, family), prefixLength))
    if (table.compare(key, 0, key.length, at, at + key.length) !== 0) return 'has a range with host bits set'
    const action = table[at + keyBytes(family)] as number
    if (action !== 1 && action !== 2) return 'has an unknown action'
  }
  return orderFault(table, recordBytes(family), keyBytes(family))
}

function addressAt(table: Buffer, at: number, family: Family): Address {
  const word = (index: number) => table.readUInt32BE(at + 4 * index)
  return family === 4
    ? { family: 4, value: word(0) }
    : { family: 6, w0: word(0), w1: word(1), w2: word(2), w3: word(3) }
}

/** Call it only if `ruleListFault` found nothing. */
export function readRuleList(bytes: Buffer): DatedRules & { accountId: Uuid } {
  const { end4 } = endsOf(bytes)
  const rules: DatedRule[] = []
  const ids: Buffer[] = []
  for (let at = accountHeaderBytes; at < bytes.length; ) {
    const family = at < end4 ? 4 : 6
    const next = at + recordBytes(family)
    const prefixLength = bytes.readUInt8(at + addressBytes[family])
    const action = bytes.readUInt8(at + keyBytes(family)) === 1 ? 'allow' : 'deny'
    const expiresAt = bytes.readUIntBE(next - idBytes - expiryBytes, expiryBytes)
    rules.push({
      cidr: { network: addressAt(bytes, at, family), prefixLength },
      action,
      ...(expiresAt !== 0 && { expiresAt }),
    })
    ids.push(bytes.subarray(next - idBytes, next))
    at = next
  }
  return { accountId: uuidOfHex(bytes.toString('hex', 4, 20)), rules, ruleIds: Buffer.concat(ids) }
}
