import { type Address, toAddress } from '../../kernel/ip/address.ts'

/** Parses consecutive `inet_send()` values: family, prefix length, a flag, the number of bytes, and the bytes. */
export function addressesOf(bytes: Buffer): Address[] {
  const addresses: Address[] = []
  for (let at = 0; at < bytes.length; ) {
    const length = bytes[at + 3] as number
    at += 4
    addresses.push(
      length === 4
        ? { family: 4, value: bytes.readUInt32BE(at) }
        : toAddress({
            family: 6,
            w0: bytes.readUInt32BE(at),
            w1: bytes.readUInt32BE(at + 4),
            w2: bytes.readUInt32BE(at + 8),
            w3: bytes.readUInt32BE(at + 12),
          }),
    )
    at += length
  }
  return addresses
}

/** `timestamptz_send()` counts microseconds since the year 2000. */
const epochMs = Date.UTC(2000, 0, 1)

/** The timestamp at this index, in milliseconds. */
export const momentAt = (bytes: Buffer, index: number): number =>
  epochMs + Math.floor((bytes.readInt32BE(index * 8) * 2 ** 32 + bytes.readUInt32BE(index * 8 + 4)) / 1_000)
