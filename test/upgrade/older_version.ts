import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)
const root = new URL('../..', import.meta.url).pathname

export type OlderVersion = {
  commit: string
  version: string
  /** Whether its `migrate` grants rights to a role of `serve`. */
  hasAppRole: boolean
  edge: Record<string, string>
}

/** Versions that may be in use: the last commit before 0.2.0, and 0.2.0. */
export const olderVersions: readonly OlderVersion[] = [
  { commit: '2339be9', version: '0.1.0', hasAppRole: false, edge: {} },
  { commit: '5ef758b', version: '0.2.0', hasAppRole: true, edge: { GATEHOUSE_EDGE_UPSTREAM_ALLOW: '127.0.0.0/8' } },
]

/** Resolves to the folder of that version, with its own packages. Made once, then kept. Not below node_modules: no TypeScript there. */
export async function folderOf({ commit }: OlderVersion): Promise<string> {
  const folder = join(root, '.older', commit)
  if (existsSync(folder)) return folder
  const unfinished = `${folder}.${process.pid}`
  await mkdir(unfinished, { recursive: true })
  try {
    await run('sh', ['-c', 'git archive "$0" | tar x -C "$1"', commit, unfinished], { cwd: root })
    await run('npm', ['ci', '--omit=dev', '--omit=optional', '--ignore-scripts', '--no-audit', '--no-fund'], {
      cwd: unfinished,
    })
    await rename(unfinished, folder)
  } finally {
    await rm(unfinished, { recursive: true, force: true })
  }
  return folder
}
