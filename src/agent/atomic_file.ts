import { open, rename } from 'node:fs/promises'
import { dirname } from 'node:path'

/** After it resolves there is the whole new file, also after a power cut; before that the whole old one. */
export async function writeAtomically(file: string, parts: Iterable<string | Buffer>, mode = 0o600): Promise<void> {
  const temporary = `${file}.new`
  const handle = await open(temporary, 'w', mode)
  try {
    for (const part of parts) await handle.write(part as string)
    await handle.sync()
  } finally {
    await handle.close()
  }
  await rename(temporary, file)
  // A rename is on disk only when its folder is.
  const folder = await open(dirname(file), 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}
