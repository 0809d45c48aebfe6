import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { isStale } from '../../dev/stale.ts'

const root = new URL('../..', import.meta.url).pathname
export const builtMain = join(root, 'dist/main.js')

/** `npm run check` has built already; building again would take from others what they run. */
export async function buildIfOld(): Promise<void> {
  if (await isStale('dist/main.js', ['src/**/*.ts', 'dev/bundle.ts', 'tsconfig.json']))
    await promisify(execFile)(process.execPath, ['dev/build.ts'], { cwd: root })
}
