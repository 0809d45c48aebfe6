// The dashboard's files in dashboard/dist, for npm run build, npm run dev and the browser tests.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { isStale } from './stale.ts'

const root = new URL('..', import.meta.url).pathname
const built = 'dashboard/dist/index.html'
const sources = [
  'dashboard/*.{ts,html,json}',
  'dashboard/{src,public}/**/*.*',
  'clients/typescript/src/*.ts',
  'openapi.json',
  'src/kernel/**/*.ts',
  'package-lock.json',
]

async function run(script: string, ...args: string[]): Promise<void> {
  // Standard output belongs to the caller, for which --json makes it a single line.
  const child = spawn(process.execPath, [`${root}${script}`, ...args], {
    cwd: `${root}dashboard`,
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const [code] = await once(child, 'exit')
  if (code !== 0) throw new Error(`${script} ended with ${code}`)
}

/** Types generated from openapi.json, which the type check of the program needs too. */
export const generateClient = (): Promise<void> => run('dashboard/generate_client.ts')

/** Generates them unless they are newer than their sources. */
export async function ensureClient(): Promise<void> {
  const made = 'clients/typescript/src/generated/keyed_posts.ts'
  if (await isStale(made, ['openapi.json', 'dashboard/generate_client.ts'])) await generateClient()
}

export async function buildDashboard(): Promise<void> {
  await generateClient()
  await run('node_modules/vite/bin/vite.js', 'build', '--logLevel', 'error')
}

/** Builds the dashboard unless nothing has changed since the last build. */
export async function ensureDashboard(): Promise<void> {
  if (await isStale(built, sources, ['dashboard/src/generated/**'])) await buildDashboard()
}
