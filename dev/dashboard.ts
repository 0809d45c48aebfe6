// The dashboard's files in dashboard/dist, for npm run build, npm run dev and the browser tests.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { isStale } from './stale.ts'

const root = new URL('..', import.meta.url).pathname
const built = 'dashboard/dist/index.html'
const sources = [
  'dashboard/*.{ts,html,json}',
  'dashboard/{src,public}/**/*.*',
  'openapi.json',
  'src/kernel/**/*.ts',
  'package-lock.json',
]

export async function buildDashboard(): Promise<void> {
  for (const script of ['dashboard/generate_client.ts', 'node_modules/vite/bin/vite.js']) {
    const args = script.endsWith('vite.js')
      ? [`${root}${script}`, 'build', '--logLevel', 'error']
      : [`${root}${script}`]
    // Standard output belongs to the caller: with --json it is a single line.
    const child = spawn(process.execPath, args, { cwd: `${root}dashboard`, stdio: ['ignore', 'ignore', 'inherit'] })
    const [code] = await once(child, 'exit')
    if (code !== 0) throw new Error(`${script} ended with ${code}`)
  }
}

/** Builds it unless nothing has changed since it was built. */
export async function ensureDashboard(): Promise<void> {
  if (await isStale(built, sources, ['dashboard/src/generated/**'])) await buildDashboard()
}
