import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { isStale } from '../../dev/stale.ts'

const root = new URL('../..', import.meta.url).pathname
export const builtMain = join(root, 'dist/main.js')

/** Before any test runs: a build takes away what is there, and two at once disturb each other. */
export async function ensureBuilt(): Promise<void> {
  if (await isStale('dist/main.js', ['src/**/*.ts', 'dev/bundle.ts', 'tsconfig.json']))
    await promisify(execFile)(process.execPath, ['dev/build.ts'], { cwd: root })
}
