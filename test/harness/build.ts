import { execFile } from 'node:child_process'
import { glob, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

const root = new URL('../..', import.meta.url).pathname
export const builtMain = join(root, 'dist/main.js')

/** `npm run check` has built already; building again would take from others what they run. */
export async function buildIfOld(): Promise<void> {
  const built = await stat(builtMain).catch(() => undefined)
  const sources = await Array.fromAsync(glob('{src/**/*.ts,tsconfig*.json}', { cwd: root }))
  const changes = await Promise.all(sources.map(async (file) => (await stat(join(root, file))).mtimeMs))
  if (built && built.mtimeMs > Math.max(...changes)) return
  await promisify(execFile)(process.execPath, ['dev/build.ts'], { cwd: root })
}
