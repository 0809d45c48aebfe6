// Bundles the program and its packages into a few files: loading 1,500 modules one by one takes most of a start
// (docs/adr/0063). Names and layout of the code stay readable, so that stack traces need no source map. Vite, a
// dependency of the dashboard, bundles both.
import { chmod, mkdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { build, type Plugin, type Rolldown } from 'vite'
import { toBundle } from '../src/cli/bundled_operations.ts'
import { documentedOperations } from '../src/cli/documented_operations.ts'
import { luaFiles, terraformProtocolFiles } from '../src/kernel/package_files.ts'
import { bundledPackages } from './bundled_packages.ts'
import { isStale } from './stale.ts'

const root = new URL('..', import.meta.url).pathname

/**
 * `import` reads every export of a Node module, and reading some of them loads more code: all of `fetch` for node:http,
 * workers and readline for node:fs, a text comparison for node:util. This reads only the named exports. Packages that
 * call `require` get the module itself.
 */
const onlyNamedExports: Plugin = {
  name: 'only-named-exports',
  renderChunk: (code) => ({
    code: code.replace(
      /^import ([\w$]+|\{[^}]*\}) from "(node:[\w/]+)";$/gm,
      (_, names: string, module) => `const ${names.replaceAll(' as ', ': ')} = process.getBuiltinModule("${module}");`,
    ),
    map: null,
  }),
}

/**
 * The modules that every start loads, and those that the command line also loads for every API call: one file each,
 * because a file takes a millisecond. Services do not load the second file.
 */
const wholes = {
  program: ['program'],
  client: ['cli/run', 'cli/perform', 'cli/call', 'cli/report', 'cli/output/table'],
}

function inWholes() {
  const chunkOf = new Map<string, string>()
  const plugin: Plugin = {
    name: 'wholes',
    buildEnd() {
      for (const [chunk, roots] of Object.entries(wholes)) {
        const wanted = roots.map((name) => join(root, `src/${name}.ts`))
        for (let id = wanted.pop(); id; id = wanted.pop()) {
          const found = chunkOf.has(id) ? undefined : this.getModuleInfo(id)
          if (!found) continue
          chunkOf.set(id, chunk)
          wanted.push(...found.importedIds)
        }
      }
    },
  }
  const groups = Object.keys(wholes).map((name) => ({ name, test: (id: string) => chunkOf.get(id) === name }))
  return { plugin, groups }
}

/** Writes into a folder directly below the package's root; see src/kernel/package_files.ts. */
export async function bundle(folder: string): Promise<void> {
  const { plugin, groups } = inWholes()
  const built = await build({
    root,
    configFile: false,
    logLevel: 'error',
    plugins: [onlyNamedExports, plugin],
    // pg would use native code of this name, which is not installed.
    ssr: { noExternal: true, external: ['pg-native'] },
    build: {
      ssr: 'src/main.ts',
      outDir: folder,
      emptyOutDir: false,
      target: 'node24',
      minify: false,
      rolldownOptions: {
        output: {
          entryFileNames: '[name].js',
          chunkFileNames: '[name]-[hash].js',
          codeSplitting: { groups },
        },
      },
    },
  })
  await chmod(join(root, folder, 'main.js'), 0o755)
  const modules = (built as Rolldown.RolldownOutput).output.flatMap((file) =>
    file.type === 'chunk' ? file.moduleIds : [],
  )
  await writeFile(join(root, folder, 'operations.json'), toBundle(documentedOperations()))
  await writeFile(join(root, folder, 'THIRD_PARTY_LICENSES'), await licensesOf(modules))
}

/** The licenses of the bundled packages require their text in every copy. */
async function licensesOf(modules: string[]): Promise<string> {
  const packages = new Set(modules.flatMap((id) => /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/.exec(id)?.[0] ?? []))
  const texts = await Promise.all(
    [...packages].sort().map(async (folder) => {
      const { name, version, license } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'))
      const text = await licenseIn(folder)
      return `${name} ${version} (${license})\n\n${text ?? 'The package has no license file.'}`
    }),
  )
  return texts.join(`\n${'-'.repeat(80)}\n\n`)
}

async function licenseIn(folder: string): Promise<string | undefined> {
  for (const name of ['LICENSE', 'LICENSE.md', 'license', 'license.md', 'LICENSE.txt']) {
    const text = await readFile(join(folder, name), 'utf8').catch(() => undefined)
    if (text) return text
  }
  return undefined
}

const entryOf = (name: string): string => (name === 'ajv/dist/2020.js' ? join(root, 'dev/bundled_ajv.ts') : name)

/** For test/harness/bundled_packages.ts. */
async function bundlePackages(folder: string): Promise<void> {
  await build({
    root,
    configFile: false,
    logLevel: 'error',
    ssr: { noExternal: true, external: ['pg-native'] },
    build: {
      ssr: true,
      outDir: folder,
      target: 'node24',
      minify: false,
      rolldownOptions: {
        input: Object.fromEntries([...bundledPackages].map(([name, file]) => [basename(file, '.js'), entryOf(name)])),
        output: { entryFileNames: '[name].js', chunkFileNames: '[name]-[hash].js' },
      },
    },
  })
}

const testFolder = '.program'

/**
 * For tests and drills, which start the program some hundred times: a bundle of the current sources, with links to the
 * files that `npm run build` would copy, and the packages that test files load. Resolves to the file to run.
 */
export async function ensureTestProgram(): Promise<string> {
  const main = join(root, testFolder, 'main.js')
  if (
    !(await isStale(`${testFolder}/main.js`, [
      'src/**/*.ts',
      'clients/typescript/src/*.ts',
      'dev/bundle*.ts',
      'openapi.json',
      'package-lock.json',
    ]))
  )
    return main
  await rm(join(root, testFolder), { recursive: true, force: true })
  await mkdir(join(root, testFolder))
  for (const name of luaFiles) await symlink(`../src/agent/haproxy/${name}`, join(root, testFolder, name))
  for (const name of terraformProtocolFiles) await symlink(`../src/terraform/${name}`, join(root, testFolder, name))
  await symlink('../dashboard/dist', join(root, testFolder, 'dashboard'))
  await symlink('../.docs', join(root, testFolder, 'docs'))
  await symlink('../node_modules/swagger-ui-dist', join(root, testFolder, 'reference'))
  await bundlePackages(join(testFolder, 'packages'))
  await bundle(testFolder)
  return main
}
