// `npm run build`: the program in dist/, and the dashboard in dashboard/dist. `--checked` skips the type check, which
// `npm run check` has already done.
import { spawnSync } from 'node:child_process'
import { copyFile, mkdir, rm } from 'node:fs/promises'
import { luaFiles, terraformProtocolFiles } from '../src/kernel/package_files.ts'
import { bundle } from './bundle.ts'
import { buildDashboard, generateClient } from './dashboard.ts'
import { copyDashboard } from './dashboard_files.ts'
import { buildDocs } from './docs_site/build.ts'
import { sizesOf } from './sizes.ts'

const root = new URL('..', import.meta.url)
if (!process.argv.includes('--checked')) {
  await generateClient()
  const { status } = spawnSync(process.execPath, ['node_modules/typescript/bin/tsc', '--noEmit'], {
    cwd: root,
    stdio: 'inherit',
  })
  if (status !== 0) process.exit(1)
}
await rm(new URL('dist', root), { recursive: true, force: true })

// Only the files of Swagger UI that the page loads.
await mkdir(new URL('dist/reference', root), { recursive: true })
for (const file of ['swagger-ui-bundle.js', 'swagger-ui.css', 'LICENSE'])
  await copyFile(new URL(`node_modules/swagger-ui-dist/${file}`, root), new URL(`dist/reference/${file}`, root))

for (const name of luaFiles) await copyFile(new URL(`src/agent/haproxy/${name}`, root), new URL(`dist/${name}`, root))
for (const name of terraformProtocolFiles)
  await copyFile(new URL(`src/terraform/${name}`, root), new URL(`dist/${name}`, root))
await buildDocs('dist/docs')
await buildDashboard()
await copyDashboard(new URL('dashboard/dist', root).pathname, new URL('dist/dashboard', root).pathname)
// Last, because a program in dist/ means that the build is complete.
await bundle('dist')
for (const line of sizesOf({ program: 'dist', dashboard: 'dashboard/dist' })) console.log(line)
