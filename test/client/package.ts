import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Scope } from '../harness/control_plane.ts'

const root = new URL('../..', import.meta.url).pathname
const run = promisify(execFile)

export const compile = (folder: string, ...args: string[]): Promise<unknown> =>
  run(join(root, 'node_modules/.bin/tsc'), ['-p', folder, ...args], { cwd: folder }).catch(({ stdout }) => {
    throw new Error(`${folder} does not compile:\n${stdout}`)
  })

/** A folder in which the package is installed as `npm install` would, and nothing else is. */
export async function installClient(scope: Scope): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-client-'))
  scope.after(() => rm(folder, { recursive: true }))
  const installed = join(folder, 'node_modules/gatehouse-client')
  await mkdir(installed, { recursive: true })
  await compile(join(root, 'clients/typescript'), '--outDir', join(installed, 'dist'))
  await cp(join(root, 'clients/typescript/package.json'), join(installed, 'package.json'))
  for (const name of ['openapi-fetch', 'openapi-typescript-helpers'])
    await symlink(join(root, 'node_modules', name), join(folder, 'node_modules', name))
  return folder
}
