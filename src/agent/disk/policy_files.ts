import { hash } from 'node:crypto'
import { basename, join } from 'node:path'
import { hashOfAllInSlices } from '../../distribution/pieces.ts'
import { type PolicyFile, policyFileFault } from '../../distribution/policy_file.ts'
import type { PolicyRecord } from '../../distribution/records.ts'
import { ruleFileFault } from '../../distribution/rule_file.ts'
import { ruleListFault } from '../../distribution/rule_list.ts'
import { inParallel } from '../../kernel/flow/in_parallel.ts'
import { diskFiles, type Files, writeAtomically } from './files.ts'

/** Fetches a piece of a policy by its hash; undefined if the piece is not available now. */
export type FetchBlob = (name: string) => Promise<Buffer | undefined>

const fetchWidth = 32

/** The content is unusable and will stay so. All other errors may be transient. */
export class ContentFault extends Error {}

/**
 * The files that HAProxy searches, named by their hash. A file never changes: a changed policy names another file.
 * Pieces are stored beside the files, because the next version shares all but one of them.
 */
export async function openPolicyFiles(
  policyFolder: string,
  pieceFolder: string,
  fetchBlob: FetchBlob,
  files: Files = diskFiles,
) {
  await files.makeFolder(policyFolder)
  await files.makeFolder(pieceFolder)

  const piece = createPieces(files, pieceFolder, fetchBlob)
  const layouts = createLayouts()
  let unwantedBefore = new Set<string>()

  return {
    /**
     * Removes files that no policy uses, neither now nor at the last call: HAProxy may still be reading a file that a
     * policy has just dropped. Must not run concurrently with `prepare`, which relies on the files it finds.
     */
    async sweep(policies: Iterable<Pick<PolicyRecord, 'hash' | 'chunks'>>): Promise<number> {
      const wanted = new Set<string>()
      for (const { hash: file, chunks } of policies) for (const name of [file, ...(chunks ?? [])]) wanted.add(name)
      const unwanted = (await Promise.all([policyFolder, pieceFolder].map((folder) => pathsIn(files, folder))))
        .flat()
        .filter((path) => !wanted.has(basename(path)))
      const now = unwanted.filter((path) => unwantedBefore.has(path))
      for (const path of now) await files.remove(path)
      unwantedBefore = new Set(unwanted)
      return now.length
    },
    /**
     * Writes the policy's file; it is on disk once this resolves. Throws without changing anything if the content is not
     * what was signed. `before` is the policy's earlier record, whose file has most of the same pieces.
     */
    prepare: (record: PolicyRecord, before?: PolicyRecord) => prepare(record, before, policyFileFault),
    /** Like `prepare`, for the file that says which rule decides. */
    prepareRules: (record: PolicyRecord, before?: PolicyRecord) => prepare(record, before, ruleFileFault),
    /** Like `prepare`, for the file that contains the rules themselves. */
    prepareRuleList: (record: PolicyRecord, before?: PolicyRecord) => prepare(record, before, ruleListFault),
    ...createOwnFiles(files, policyFolder),
  }

  async function prepare(
    record: PolicyRecord,
    before: PolicyRecord | undefined,
    faultIn: typeof policyFileFault,
  ): Promise<void> {
    const path = join(policyFolder, record.hash)
    if ((await files.size(path)) === record.bytes) return
    const bytes = (before && (await fromEarlierFile(record, before))) ?? (await fromPieces(record))
    const fault = faultIn(bytes)
    if (fault) throw new ContentFault(`the policy file ${fault}`)
    // HAProxy may run as another user and has to read the file.
    await writeAtomically(files, path, [bytes], 0o644)
  }

  async function fromPieces(record: PolicyRecord): Promise<Buffer> {
    const { inline, chunks = [] } = record
    const parts = inline === undefined ? await inParallel(chunks, fetchWidth, piece) : [Buffer.from(inline, 'base64')]
    if (!(await isSigned(parts, record)))
      throw new ContentFault('the contents of the policy file do not match its signature')
    if (inline === undefined) layouts.keep(record, parts)
    return Buffer.concat(parts)
  }

  /** Reads one file instead of hundreds of pieces. Undefined if its layout is unknown or it is damaged. */
  async function fromEarlierFile(record: PolicyRecord, before: PolicyRecord): Promise<Buffer | undefined> {
    const layout = layouts.get(before.hash)
    const known = layout && (await files.read(join(policyFolder, before.hash)).catch(() => undefined))
    if (!layout || !known || !record.chunks) return undefined
    const parts = await inParallel(record.chunks, fetchWidth, async (name) => {
      const place = layout.get(name)
      return place ? known.subarray(place.start, place.end) : piece(name)
    })
    // The signed hash covers the parts too.
    if (!(await isSigned(parts, record))) return undefined
    layouts.keep(record, parts)
    return Buffer.concat(parts)
  }
}

/** Files that the agent compiles itself, from the rules in another file. */
const createOwnFiles = (files: Files, policyFolder: string) => ({
  /** Throws if the content is not what was signed; the next `prepareRuleList` then writes the file again. */
  async readRuleList(record: PolicyRecord): Promise<Buffer> {
    const path = join(policyFolder, record.hash)
    const bytes = await files.read(path)
    if (bytes && (await isSigned([bytes], record))) return bytes
    await files.remove(path)
    throw new Error('the list of rules on disk is damaged')
  },
  async write({ hash: name, bytes }: Pick<PolicyFile, 'hash' | 'bytes'>): Promise<void> {
    const path = join(policyFolder, name)
    if ((await files.size(path)) !== bytes.length) await writeAtomically(files, path, [bytes], 0o644)
  },
})

/** Reads pieces from disk and fetches those that are missing. */
const createPieces =
  (files: Files, pieceFolder: string, fetchBlob: FetchBlob) =>
  async (name: string): Promise<Buffer> => {
    const known = await files.read(join(pieceFolder, name)).catch(() => undefined)
    if (known && hash('sha256', known, 'hex') === name) return known
    const fetched = await fetchBlob(name).catch((cause) => {
      throw new Error(`piece ${name} cannot be fetched`, { cause })
    })
    if (!fetched) throw new Error(`piece ${name} is not there`)
    if (hash('sha256', fetched, 'hex') !== name)
      throw new ContentFault(`the contents of piece ${name} do not match its name`)
    await writeAtomically(files, join(pieceFolder, name), [fetched])
    return fetched
  }

async function isSigned(parts: readonly Buffer[], { hash: wanted, bytes }: PolicyRecord): Promise<boolean> {
  return parts.reduce((sum, { length }) => sum + length, 0) === bytes && (await hashOfAllInSlices(parts)) === wanted
}

type Layout = Map<string, { start: number; end: number }>
const maxLayouts = 64

/** Offsets of the pieces in the files that were written last. */
function createLayouts() {
  const layouts = new Map<string, Layout>()
  return {
    get: (file: string): Layout | undefined => layouts.get(file),
    keep({ hash: file, chunks = [] }: PolicyRecord, parts: readonly Buffer[]): void {
      const layout: Layout = new Map()
      let start = 0
      for (const [index, name] of chunks.entries()) {
        const end = start + (parts[index]?.length ?? 0)
        layout.set(name, { start, end })
        start = end
      }
      layouts.delete(file)
      layouts.set(file, layout)
      for (const oldest of layouts.keys()) {
        if (layouts.size <= maxLayouts) break
        layouts.delete(oldest)
      }
    },
  }
}

const pathsIn = async (files: Files, folder: string): Promise<string[]> =>
  (await files.list(folder)).map((name) => join(folder, name))

export type PolicyFiles = Awaited<ReturnType<typeof openPolicyFiles>>
