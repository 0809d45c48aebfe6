// The part of the POSIX tar format (ustar) that backups need. The `tar` of any machine reads it.
import { BackupFault } from './fault.ts'

const blockBytes = 512
/** The largest size that the header's eleven octal digits can hold. */
const maxEntryBytes = 8 ** 11 - 1
const isZero = (block: Buffer): boolean => block.every((byte) => byte === 0)
const padding = (size: number): number => (blockBytes - (size % blockBytes)) % blockBytes

type Entry = { name: string; size: number; mode: number }
export type ReadEntry = Entry & { content: AsyncIterable<Buffer> }

export function tarHeader({ name, size, mode }: Entry, mtimeSeconds: number): Buffer {
  const block = Buffer.alloc(blockBytes)
  const [prefix, base] = split(name)
  if (size > maxEntryBytes) throw new BackupFault(`${name} is too large`)
  const octal = (value: number, digits: number) => value.toString(8).padStart(digits, '0')
  block.write(base, 0)
  block.write(octal(mode & 0o7777, 7), 100)
  for (const offset of [108, 116]) block.write(octal(0, 7), offset)
  block.write(octal(size, 11), 124)
  block.write(octal(mtimeSeconds, 11), 136)
  block.write('        ', 148)
  block.write('0', 156)
  block.write('ustar\x0000', 257, 'latin1')
  block.write(prefix, 345)
  block.write(`${octal(sumOf(block), 6)}\0 `, 148, 'latin1')
  return block
}

const sumOf = (block: Buffer): number => block.reduce((sum, byte) => sum + byte, 0)

/** A name has 100 bytes, and the folder before it 155. */
function split(name: string): [prefix: string, base: string] {
  if (Buffer.byteLength(name) <= 100) return ['', name]
  for (let at = name.indexOf('/'); at > 0; at = name.indexOf('/', at + 1)) {
    const [prefix, base] = [name.slice(0, at), name.slice(at + 1)]
    if (Buffer.byteLength(prefix) <= 155 && Buffer.byteLength(base) <= 100) return [prefix, base]
  }
  throw new BackupFault(`the path ${name} is too long`)
}

export const tarPadding = (size: number): Buffer => Buffer.alloc(padding(size))
export const tarEnd = (): Buffer => Buffer.alloc(2 * blockBytes)

/** Read the content of each entry before you request the next. A truncated archive is an error. */
export async function* tarEntries(source: AsyncIterable<Buffer>): AsyncGenerator<ReadEntry> {
  const reader = byteReader(source)
  for (;;) {
    const block = await reader.exactly(blockBytes)
    if (isZero(block)) break
    const entry = parse(block)
    yield { ...entry, content: reader.some(entry.size) }
    await reader.exactly(padding(entry.size))
  }
  if (!isZero(await reader.exactly(blockBytes))) throw new BackupFault('the archive does not end where it should')
  if (await reader.hasMore()) throw new BackupFault('the archive has data behind its end')
}

function parse(block: Buffer): Entry {
  const text = (from: number, length: number) =>
    block
      .subarray(from, from + length)
      .toString()
      .replace(/[\0 ].*$/s, '')
  const octal = (from: number, length: number) => Number.parseInt(text(from, length), 8)
  const named = (from: number, length: number) =>
    block
      .subarray(from, from + length)
      .toString()
      .replace(/\0.*$/s, '')
  const sum = octal(148, 8)
  const blank = Buffer.from(block)
  blank.write('        ', 148)
  if (sumOf(blank) !== sum || block.toString('latin1', 257, 262) !== 'ustar')
    throw new BackupFault('the archive is damaged')
  const prefix = named(345, 155)
  return { name: `${prefix && `${prefix}/`}${named(0, 100)}`, size: octal(124, 12), mode: octal(100, 8) }
}

/** Reads fixed lengths from a stream of arbitrary chunks. */
function byteReader(source: AsyncIterable<Buffer>) {
  const parts = source[Symbol.asyncIterator]()
  let left: Buffer = Buffer.alloc(0)

  /** Up to `most` bytes; empty only at the end of the stream. */
  async function next(most: number): Promise<Buffer> {
    while (left.length === 0) {
      const { value, done } = await parts.next()
      if (done) return left
      left = value
    }
    const part = left.subarray(0, most)
    left = left.subarray(part.length)
    return part
  }
  async function* some(length: number): AsyncGenerator<Buffer> {
    for (let missing = length; missing > 0; ) {
      const part = await next(missing)
      if (part.length === 0) throw new BackupFault('the archive ends too early')
      missing -= part.length
      yield part
    }
  }
  return {
    some,
    exactly: async (length: number): Promise<Buffer> => Buffer.concat(await Array.fromAsync(some(length))),
    hasMore: async (): Promise<boolean> => (await next(1)).length > 0,
  }
}
