// The program's files that are not code. Only this file knows that the program runs from its sources as well as from the
// bundle that dev/bundle.ts makes, whose files are all directly in one folder below the package's root.
import { fileURLToPath } from 'node:url'

const isSource = import.meta.url.endsWith('.ts')
const at = (path: string): string => fileURLToPath(new URL(path, import.meta.url))
const inPackage = (path: string): string => at(isSource ? `../../${path}` : `../${path}`)

export const luaFiles = ['paths.lua', 'gatehouse.lua'] as const

export const terraformProtocolFiles = ['tfplugin6.proto', 'plugin.proto'] as const

export const packageFiles = {
  manifest: inPackage('package.json'),
  openapi: inPackage('openapi.json'),
  /** Only of the bundle: the sources read openapi.json. */
  operations: isSource ? undefined : at('operations.json'),
  migrations: inPackage('migrations'),
  /** In the order in which HAProxy loads them. */
  lua: luaFiles.map((name) => at(isSource ? `../agent/haproxy/${name}` : name)),
  terraformProtocol: terraformProtocolFiles.map((name) => at(isSource ? `../terraform/${name}` : name)),
  dashboard: isSource ? inPackage('dashboard/dist') : at('dashboard'),
  docs: isSource ? inPackage('.docs') : at('docs'),
  reference: isSource ? inPackage('node_modules/swagger-ui-dist') : at('reference'),
}
