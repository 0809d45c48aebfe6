import { hash } from 'node:crypto'
import { mkdir, readdir, readFile, rm, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { policyFileFault } from '../distribution/policy_file.ts'
import type { PolicyRecord } from '../distribution/records.ts'
import { ruleFileFault } from '../distribution/rule_file.ts'
import { writeAtomically } from './atomic_file.ts'

/** Fetches a piece of a policy by its hash; undefined when it is not to be had now. */
export type FetchBlob = (name: string) => Promise<Buffer | undefined>

/** Not a fault of the record: the piece may come, and then the policy can be applied. */
export class PieceMissing extends Error {}

/**
 * The files that HAProxy searches, named by their hash, so that a file never changes: a policy changes by naming
 * another one. Pieces are kept beside them, because the next version shares all but one.
 */
export async function openPolicyFiles(policyFolder: string, pieceFolder: string, fetchBlob: FetchBlob) {
  await mkdir(policyFolder, { recursive: true })
  await mkdir(pieceFolder, { recursive: true })

  async function piece(name: string): Promise<Buffer> {
    const known = await readFile(join(pieceFolder, name)).catch(() => undefined)
    if (known && hash('sha256', known, 'hex') === name) return known
    const fetched = await fetchBlob(name).catch((cause) => {
      throw new PieceMissing(`piece ${name} cannot be fetched`, { cause })
    })
    if (!fetched) throw new PieceMissing(`piece ${name} is not there`)
    if (hash('sha256', fetched, 'hex') !== name) throw new Error(`the contents of piece ${name} do not match its name`)
    await writeAtomically(join(pieceFolder, name), [fetched])
    return fetched
  }

  let unwantedBefore = new Set<string>()

  return {
    /**
     * Removes files that no policy uses, now or at the last call: HAProxy may still be reading one it has just dropped.
     * Must not run concurrently with `prepare`, which relies on the files it finds.
     */
    async sweep(policies: Iterable<PolicyRecord>): Promise<number> {
      const wanted = new Set<string>()
      for (const { hash: file, chunks } of policies) for (const name of [file, ...(chunks ?? [])]) wanted.add(name)
      const unwanted = (await Promise.all([policyFolder, pieceFolder].map(pathsIn)))
        .flat()
        .filter((path) => !wanted.has(basename(path)))
      const now = unwanted.filter((path) => unwantedBefore.has(path))
      for (const path of now) await rm(path, { force: true })
      unwantedBefore = new Set(unwanted)
      return now.length
    },
    /** The file of a policy, on disk when it resolves. Throws, and leaves everything as it was, when it is not what was signed. */
    prepare: (record: PolicyRecord) => prepare(record, policyFileFault),
    /** The same for the file that says which rule decides. */
    prepareRules: (record: PolicyRecord) => prepare(record, ruleFileFault),
  }

  async function prepare(record: PolicyRecord, faultIn: typeof policyFileFault): Promise<void> {
    const path = join(policyFolder, record.hash)
    if ((await stat(path).catch(() => undefined))?.size === record.bytes) return
    const bytes =
      record.inline === undefined
        ? Buffer.concat(await inBatches(record.chunks ?? [], piece))
        : Buffer.from(record.inline, 'base64')
    if (bytes.length !== record.bytes || hash('sha256', bytes, 'hex') !== record.hash)
      throw new Error('the contents of the policy file do not match its signature')
    const fault = faultIn(bytes)
    if (fault) throw new Error(`the policy file ${fault}`)
    // Readable by HAProxy, which may run as another user.
    await writeAtomically(join(policyFolder, record.hash), [bytes], 0o644)
  }
}

const pathsIn = async (folder: string): Promise<string[]> => (await readdir(folder)).map((name) => join(folder, name))

export type PolicyFiles = Awaited<ReturnType<typeof openPolicyFiles>>

async function inBatches<Item, Result>(
  items: readonly Item[],
  work: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = []
  for (let start = 0; start < items.length; start += 32)
    results.push(...(await Promise.all(items.slice(start, start + 32).map(work))))
  return results
}
