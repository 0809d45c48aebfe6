import { glob, stat } from 'node:fs/promises'
import { join } from 'node:path'

const root = new URL('..', import.meta.url).pathname

/** True if a generated file is missing, or older than any of its sources. */
export async function isStale(made: string, sources: string[], exclude: string[] = []): Promise<boolean> {
  const known = await stat(join(root, made)).catch(() => undefined)
  if (!known) return true
  for await (const file of glob(sources, { cwd: root, exclude })) {
    if ((await stat(join(root, file))).mtimeMs > known.mtimeMs) return true
  }
  return false
}
