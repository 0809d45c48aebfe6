// `npm run build`: the distributable JavaScript in dist/, with the same file layout as src/, and the dashboard in
// dashboard/dist. `--checked` leaves out the types, for `npm run check`, which has seen to them.
import { spawnSync } from 'node:child_process'
import { chmod, copyFile, mkdir, rm } from 'node:fs/promises'
import { buildDashboard } from './dashboard.ts'
import { copyDashboard } from './dashboard_files.ts'

const root = new URL('..', import.meta.url)
await rm(new URL('dist', root), { recursive: true, force: true })
const compiler = ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.build.json']
if (process.argv.includes('--checked')) compiler.push('--noCheck')
const { status } = spawnSync(process.execPath, compiler, { cwd: root, stdio: 'inherit' })
if (status !== 0) process.exit(1)
await chmod(new URL('dist/main.js', root), 0o755)
// Not TypeScript, so the compiler leaves it out; config.ts looks for it beside itself.
const lua = 'agent/haproxy/gatehouse.lua'
await copyFile(new URL(`src/${lua}`, root), new URL(`dist/${lua}`, root))

// Of Swagger UI only what the page loads; serve.ts looks for it beside itself.
await mkdir(new URL('dist/reference', root))
for (const file of ['swagger-ui-bundle.js', 'swagger-ui.css', 'LICENSE'])
  await copyFile(new URL(`node_modules/swagger-ui-dist/${file}`, root), new URL(`dist/reference/${file}`, root))

await buildDashboard()
await copyDashboard(new URL('dashboard/dist', root).pathname, new URL('dist/dashboard', root).pathname)
