// Imported into the process of every test file, to load packages of many modules from the bundle that test/run.ts has made.
import { registerHooks } from 'node:module'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { bundledPackages } from '../../dev/bundled_packages.ts'
import { program } from './program.ts'

const folder = join(dirname(program), 'packages')

registerHooks({
  resolve(specifier, context, next) {
    const file = bundledPackages.get(specifier)
    return file ? { url: pathToFileURL(join(folder, file)).href, shortCircuit: true } : next(specifier, context)
  },
})
