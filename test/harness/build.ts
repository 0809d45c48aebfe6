import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { isStale } from '../../dev/stale.ts'

const root = new URL('../..', import.meta.url).pathname
export const builtMain = join(root, 'dist/main.js')

/** Call it before the tests start: a build deletes dist, so a second one at the same time would break the first. */
export async function ensureBuilt(): Promise<void> {
  if (await isStale('dist/main.js', ['src/**/*.ts', 'dev/bundle.ts', 'tsconfig.json']))
    await promisify(execFile)(process.execPath, ['dev/build.ts'], { cwd: root })
}
