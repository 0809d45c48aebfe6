// Imported into the process of every test file, to start it faster: packages of many modules come from the bundle that
// test/run.ts has made.
import { registerHooks } from 'node:module'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { bundledPackages } from '../../dev/bundled_packages.ts'
import { program } from './program.ts'

const http = new URL('../../dev/http_without_fetch.ts', import.meta.url).href
const folder = join(dirname(program), 'packages')

registerHooks({
  resolve(specifier, context, next) {
    if (specifier === 'node:http' && context.conditions.includes('import'))
      return { url: http, format: 'module-typescript', shortCircuit: true }
    const file = bundledPackages.get(specifier)
    return file ? { url: pathToFileURL(join(folder, file)).href, shortCircuit: true } : next(specifier, context)
  },
})
