// The part of MessagePack that Terraform's values need. A package would add streams, classes and timestamps.

/** A value known only after apply, encoded as an extension. */
export const unknownValue: unique symbol = Symbol('known after apply')
export type Value =
  | null
  | boolean
  | number
  | string
  | typeof unknownValue
  | readonly Value[]
  | { readonly [name: string]: Value }

export const isObject = (value: Value | undefined): value is { readonly [name: string]: Value } =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

export const encode = (value: Value): Buffer => Buffer.concat(parts(value))

function parts(value: Value): Buffer[] {
  if (value === null) return [Buffer.from([0xc0])]
  if (value === unknownValue) return [Buffer.from([0xd4, 0, 0])]
  if (typeof value === 'boolean') return [Buffer.from([value ? 0xc3 : 0xc2])]
  if (typeof value === 'number') return [encodeNumber(value)]
  if (typeof value === 'string') {
    const bytes = Buffer.from(value)
    return [head(0xdb, bytes.length), bytes]
  }
  if (Array.isArray(value)) return [head(0xdd, value.length), ...value.flatMap(parts)]
  const entries = Object.entries(value as { [name: string]: Value })
  return [head(0xdf, entries.length), ...entries.flatMap(([name, each]) => [...parts(name), ...parts(each)])]
}

/** Always uses four length bytes; shorter forms would save little. */
function head(code: number, length: number): Buffer {
  const bytes = Buffer.alloc(5, code)
  bytes.writeUInt32BE(length, 1)
  return bytes
}

function encodeNumber(value: number): Buffer {
  const bytes = Buffer.alloc(9, 0xd3)
  if (Number.isSafeInteger(value)) bytes.writeBigInt64BE(BigInt(value), 1)
  else {
    bytes[0] = 0xcb
    bytes.writeDoubleBE(value, 1)
  }
  return bytes
}

export function decode(bytes: Buffer): Value {
  let at = 0
  const take = (length: number): number => {
    if (at + length > bytes.length) throw new Error('a MessagePack value ends too early')
    at += length
    return at - length
  }
  const uint = (length: number): number => bytes.readUIntBE(take(length), length)
  const text = (length: number): string => {
    const start = take(length)
    return bytes.toString('utf8', start, start + length)
  }
  const list = (length: number): Value[] => Array.from({ length }, value)
  const map = (length: number): Value => Object.fromEntries(Array.from({ length }, () => [String(value()), value()]))
  /** Some extension codes add a refinement, such as 'not null'. All mean that the value is unknown. */
  const extension = (length: number): Value => {
    take(length + 1)
    return unknownValue
  }
  const others: Readonly<Record<number, () => Value>> = {
    192: () => null,
    194: () => false,
    195: () => true,
    196: () => text(uint(1)),
    197: () => text(uint(2)),
    198: () => text(uint(4)),
    199: () => extension(uint(1)),
    200: () => extension(uint(2)),
    201: () => extension(uint(4)),
    202: () => bytes.readFloatBE(take(4)),
    203: () => bytes.readDoubleBE(take(8)),
    204: () => uint(1),
    205: () => uint(2),
    206: () => uint(4),
    207: () => Number(bytes.readBigUInt64BE(take(8))),
    208: () => bytes.readInt8(take(1)),
    209: () => bytes.readInt16BE(take(2)),
    210: () => bytes.readInt32BE(take(4)),
    211: () => Number(bytes.readBigInt64BE(take(8))),
    212: () => extension(1),
    213: () => extension(2),
    214: () => extension(4),
    215: () => extension(8),
    216: () => extension(16),
    217: () => text(uint(1)),
    218: () => text(uint(2)),
    219: () => text(uint(4)),
    220: () => list(uint(2)),
    221: () => list(uint(4)),
    222: () => map(uint(2)),
    223: () => map(uint(4)),
  }
  function value(): Value {
    const code = uint(1)
    if (code < 0x80) return code
    if (code < 0x90) return map(code & 0x0f)
    if (code < 0xa0) return list(code & 0x0f)
    if (code < 0xc0) return text(code & 0x1f)
    if (code >= 0xe0) return code - 0x100
    const read = others[code]
    if (!read) throw new Error(`MessagePack has no values that begin with ${code}`)
    return read()
  }
  return value()
}
