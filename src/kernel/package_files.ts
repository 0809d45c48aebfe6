// Paths of the program's data files. Only this file knows that the program runs either from its sources or from the
// bundle of dev/bundle.ts, which puts all files into one folder below the package's root.
import { fileURLToPath } from 'node:url'

const isSource = import.meta.url.endsWith('.ts')
const at = (path: string): string => fileURLToPath(new URL(path, import.meta.url))
const inPackage = (path: string): string => at(isSource ? `../../${path}` : `../${path}`)

export const luaFiles = ['paths.lua', 'gatehouse.lua'] as const

export const terraformProtocolFiles = ['tfplugin6.proto', 'plugin.proto'] as const

export const packageFiles = {
  manifest: inPackage('package.json'),
  openapi: inPackage('openapi.json'),
  /** In the bundle only; the sources read openapi.json. */
  operations: isSource ? undefined : at('operations.json'),
  migrations: inPackage('migrations'),
  /** In HAProxy's load order. */
  lua: luaFiles.map((name) => at(isSource ? `../agent/haproxy/${name}` : name)),
  terraformProtocol: terraformProtocolFiles.map((name) => at(isSource ? `../terraform/${name}` : name)),
  dashboard: isSource ? inPackage('dashboard/dist') : at('dashboard'),
  docs: isSource ? inPackage('.docs') : at('docs'),
  reference: isSource ? inPackage('node_modules/swagger-ui-dist') : at('reference'),
}
