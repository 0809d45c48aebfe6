import type { Uuid } from '../kernel/ids.ts'
import type { CompiledPolicy } from '../kernel/ip/ranges.ts'
import { accountHeader, accountHeaderBytes, addressBytes, cutPolicy, type Family, type Format } from './pieces.ts'
import { orderFault, type PolicyFile, wholeFile, writeAddress } from './policy_file.ts'

/**
 * The deciding rule of each address, for edges to count hits: `GHR1`, the account, the numbers of IPv4 and IPv6 ranges,
 * then the first address and the rule's id for each range with a deciding rule. Addresses that no rule matches have no
 * range: the policy file already shows that, so this file is not read. It decides nothing, so a node without it refuses
 * and allows the same.
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

/** Why the bytes are not a rule file; undefined if they are. Checked before HAProxy reads them. */
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
