import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)
const root = new URL('../..', import.meta.url).pathname

/** The last one before 0.2.0 that somebody may run. */
export const olderCommit = '2339be9'

/** Resolves to the folder of that version, with its own packages. Made once, then kept. Not below node_modules: no TypeScript there. */
export async function olderVersion(): Promise<string> {
  const folder = join(root, '.older', olderCommit)
  if (existsSync(folder)) return folder
  const unfinished = `${folder}.${process.pid}`
  await mkdir(unfinished, { recursive: true })
  try {
    await run('sh', ['-c', 'git archive "$0" | tar x -C "$1"', olderCommit, unfinished], { cwd: root })
    await run('npm', ['ci', '--omit=dev', '--omit=optional', '--ignore-scripts', '--no-audit', '--no-fund'], {
      cwd: unfinished,
    })
    await rename(unfinished, folder)
  } finally {
    await rm(unfinished, { recursive: true, force: true })
  }
  return folder
}
