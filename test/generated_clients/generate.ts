import { execFile } from 'node:child_process'
import { cp, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Scope } from '../harness/control_plane.ts'

const root = new URL('../..', import.meta.url).pathname
const run = promisify(execFile)

/** Generates both clients from openapi.json, compiles them with their programs, and resolves to the folder of the result. */
export async function generateClients(scope: Scope): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-generated-clients-'))
  scope.after(() => rm(folder, { recursive: true }))
  const write = (name: string, content: object) => writeFile(join(folder, name), JSON.stringify(content))
  await cp(join(root, 'test/generated_clients/programs'), folder, { recursive: true })
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'))
  await write('package.json', { type: 'module' })
  await write('tsconfig.json', {
    compilerOptions: {
      target: 'es2024',
      lib: ['esnext', 'dom', 'dom.iterable'],
      module: 'nodenext',
      strict: true,
      types: [],
      rootDir: '.',
      outDir: 'js',
    },
    include: ['*.ts', 'hey_api'],
  })
  await write('openapi-ts.config.json', {
    input: join(root, 'openapi.json'),
    output: { path: 'hey_api', module: { extension: '.js' } },
    plugins: ['@hey-api/client-fetch', '@hey-api/sdk', 'zod'],
    logs: { level: 'error', file: false },
  })
  // Both need the TypeScript of the dashboard: the compiler that we use has no API for generators yet.
  const generators = join(root, 'dashboard/node_modules/.bin')
  await Promise.all([
    run(join(generators, 'openapi-typescript'), [join(root, 'openapi.json'), '-o', 'openapi.ts'], { cwd: folder }),
    run(join(generators, 'openapi-ts'), ['-f', 'openapi-ts.config.json'], { cwd: folder }),
  ])
  await run(join(root, 'node_modules/.bin/tsc'), ['-p', folder]).catch(({ stdout }) => {
    throw new Error(`the generated clients do not compile:\n${stdout}`)
  })
  return join(folder, 'js')
}
