import type { Uuid } from '../kernel/ids.ts'
import type { CompiledPolicy } from '../kernel/ip/ranges.ts'
import { accountHeader, accountHeaderBytes, addressBytes, cutPolicy, type Family, type Format } from './pieces.ts'
import { orderFault, type PolicyFile, wholeFile, writeAddress } from './policy_file.ts'

/**
 * Which rule decides about an address, for edges to count: `GHR1`, the account, the number of IPv4 and of IPv6 ranges, then
 * for each range that a rule decides about its first address and the rule's id. Where no rule matches there is no range:
 * the policy file says so, and this file is not read. No decision is made by this file, so that a node without it refuses and
 * allows the same.
 */
const magic = 'GHR1'
const idBytes = 16
const recordBytes = (family: Family) => addressBytes[family] + idBytes

/** `ruleIds`: 16 bytes each, by the numbers of the rules. */
export const ruleFormat = (accountId: Uuid, ruleIds: Buffer): Format => ({
  recordBytes: { 4: recordBytes(4), 6: recordBytes(6) },
  header: (counts) => accountHeader(magic, accountId, counts),
  encode({ starts, verdicts }, family, from, to) {
    const out = Buffer.alloc((to - from) * recordBytes(family))
    let at = 0
    for (let index = from; index < to; index++) {
      const verdict = verdicts[index] as number
      if (verdict === 0) continue
      at = writeAddress(out, at, starts, index, family)
      const id = (Math.abs(verdict) - 1) * idBytes
      for (let byte = id; byte < id + idBytes; byte++) out[at++] = ruleIds[byte] as number
    }
    return out.subarray(0, at)
  },
})

export function encodeRules(accountId: Uuid, policy: CompiledPolicy, ruleIds: Buffer): PolicyFile {
  const format = ruleFormat(accountId, ruleIds)
  return wholeFile(cutPolicy(policy, format), format)
}

/** Why these bytes are no such file; undefined when they are one. Checked before HAProxy sees it. */
export function ruleFileFault(bytes: Buffer): string | undefined {
  if (bytes.length < accountHeaderBytes || bytes.toString('latin1', 0, 4) !== magic) return 'is not a file of rules'
  const [count4, count6] = [bytes.readUInt32BE(20), bytes.readUInt32BE(24)]
  const end4 = accountHeaderBytes + count4 * recordBytes(4)
  if (bytes.length !== end4 + count6 * recordBytes(6)) return 'has another length than it says'
  return (
    orderFault(bytes.subarray(accountHeaderBytes, end4), recordBytes(4), addressBytes[4]) ??
    orderFault(bytes.subarray(end4), recordBytes(6), addressBytes[6])
  )
}
