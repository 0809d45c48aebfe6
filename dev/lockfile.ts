// Supply-chain checks: exact versions, a hash for every package, nothing from
// outside the registry, and no install scripts except those that package.json allows.
import { readFile } from 'node:fs/promises'

type Entry = {
  version?: string
  resolved?: string
  integrity?: string
  link?: boolean
  hasInstallScript?: boolean
  optional?: boolean
  inBundle?: boolean
}
const read = async (name: string) => JSON.parse(await readFile(new URL(`../${name}`, import.meta.url), 'utf8'))
const manifest = await read('package.json')
const lock: { packages: Record<string, Entry> } = await read('package-lock.json')
const faults: string[] = []

for (const file of ['package.json', ...manifest.workspaces.map((folder: string) => `${folder}/package.json`)]) {
  const { dependencies, devDependencies, optionalDependencies } = await read(file)
  for (const [name, range] of Object.entries<string>({
    ...dependencies,
    ...devDependencies,
    ...optionalDependencies,
  })) {
    if (!/^(?:npm:[\w@/-]+@)?\d+\.\d+\.\d+(-[\w.]+)?$/.test(range))
      faults.push(`${file}: ${name} is ${range}, not an exact version`)
  }
}
const allowed = manifest.allowScripts as Record<string, boolean>
for (const [path, entry] of Object.entries(lock.packages)) {
  if (path === '' || entry.link || !path.includes('node_modules/')) continue
  const name = path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length)
  if (!entry.integrity && !entry.inBundle) faults.push(`package-lock.json: ${name} has no hash`)
  if (entry.resolved)
    faults.push(`package-lock.json: ${name} names a download address; .npmrc leaves it to the registry in use`)
  if (entry.hasInstallScript && !(name in allowed))
    faults.push(`package-lock.json: ${name} has an install script that allowScripts does not name`)
}
for (const fault of faults) console.error(fault)
if (faults.length) process.exit(1)
console.log(
  `${Object.keys(lock.packages).length - 1} packages, all exact and hashed; install scripts: ${Object.keys(allowed)
    .filter((name) => allowed[name])
    .join(', ')}`,
)
