import type { KeyObject } from 'node:crypto'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { newNodeKey, readNodeKey } from '../../distribution/delivery.ts'
import { diskFiles, type Files, writeAtomically } from './files.ts'

export type NodeKey = { readonly publicKey: string; readonly privateKey: KeyObject }

/**
 * The node's own key pair, created at its first start. It never leaves the node, because certificate private keys reach
 * this node encrypted to it. An unreadable key file stops the start: the operator would have to accept a new key.
 */
export async function openNodeKey(folder: string, files: Files = diskFiles): Promise<NodeKey> {
  const known = await readExisting(files, fileIn(folder))
  if (known) return known
  const { privateKey } = newNodeKey()
  await writeAtomically(files, fileIn(folder), [privateKey])
  return readNodeKey(privateKey)
}

const fileIn = (folder: string) => join(folder, 'node.key')

/** Why the node could not start with its key. Does not create a key. */
export const checkNodeKey = (folder: string): Promise<string | undefined> =>
  readExisting(diskFiles, fileIn(folder)).then(
    () => undefined,
    (error: Error) => error.message,
  )

async function readExisting(files: Files, file: string): Promise<NodeKey | undefined> {
  const text = (await files.read(file))?.toString()
  if (text === undefined) return undefined
  if ((await stat(file)).mode & 0o077) throw new Error(`${file} is open to others. Run: chmod 600 ${file}`)
  try {
    return readNodeKey(text)
  } catch (cause) {
    throw new Error(
      `${file} cannot be used: ${(cause as Error).message}. Restore it, or delete it and accept the new key`,
      {
        cause,
      },
    )
  }
}
