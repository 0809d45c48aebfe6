// `npm run release -- --key FINGERPRINT [--images]`: everything that a release consists of, in release/. Packages for amd64 and
// arm64, the npm package, the list of components, notes from the changelog, an apt repository that any web server can
// serve, checksums, and signatures of the checksums and the repository with a key of gpg. --images adds both container images,
// built by buildah. Publishing is copying the folder.
import { execFileSync } from 'node:child_process'
import { cp, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { version } from '../src/config/version.ts'
import { buildah, buildImage, images } from './images.ts'
import { type Architecture, makePackages, writeChecksums } from './package.ts'

const root = new URL('..', import.meta.url).pathname
const architectures: readonly Architecture[] = ['amd64', 'arm64']

const run = (command: string, args: string[], cwd = root): string =>
  execFileSync(command, args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'], maxBuffer: 64 << 20 })

const sign = (key: string, ...args: string[]): string => run('gpg', ['--batch', '--yes', '--local-user', key, ...args])

/** A version's entries in the changelog. Throws if there are entries without a version. */
export function notesOf(changelog: string, wanted: string): string {
  const sections = new Map(
    changelog
      .split(/^## /m)
      .slice(1)
      .map((text) => [/^\[(.+?)\]/.exec(text)?.[1], text.split('\n').slice(1).join('\n').trim()]),
  )
  if (sections.get('Unreleased')) throw new Error(`CHANGELOG.md still has entries under 'Unreleased'`)
  const notes = sections.get(wanted)
  if (!notes) throw new Error(`CHANGELOG.md has no section for ${wanted}`)
  return notes
}

/** apt's repository layout: https://wiki.debian.org/DebianRepository/Format. */
async function makeRepository(folder: string, key: string): Promise<void> {
  const repository = join(folder, 'apt')
  await mkdir(join(repository, 'pool'), { recursive: true })
  for (const name of (await readdir(folder)).filter((each) => each.endsWith('.deb')))
    await cp(join(folder, name), join(repository, 'pool', name))
  for (const architecture of architectures) {
    const index = join(repository, `dists/stable/main/binary-${architecture}`)
    await mkdir(index, { recursive: true })
    const listed = run('apt-ftparchive', ['--arch', architecture, 'packages', 'pool'], repository)
    await writeFile(join(index, 'Packages'), listed)
    run('gzip', ['--keep', '--no-name', 'Packages'], index)
  }
  const fields = {
    ...{ Origin: 'Gatehouse', Label: 'Gatehouse', Suite: 'stable', Codename: 'stable', Components: 'main' },
    ...{ Architectures: architectures.join(' '), Description: 'Packages of Gatehouse' },
  }
  const options = Object.entries(fields).flatMap(([name, value]) => [
    '-o',
    `APT::FTPArchive::Release::${name}=${value}`,
  ])
  const dists = join(repository, 'dists/stable')
  const release = run('apt-ftparchive', [...options, 'release', '.'], dists)
  await writeFile(join(dists, 'Release'), release)
  sign(key, '--clearsign', '--output', join(dists, 'InRelease'), join(dists, 'Release'))
  sign(key, '--armor', '--detach-sign', '--output', join(dists, 'Release.gpg'), join(dists, 'Release'))
  sign(key, '--output', join(repository, 'gatehouse-archive-keyring.gpg'), '--export', key)
}

function makeImages(into: string): void {
  for (const each of images) {
    buildImage(each)
    buildah(
      'push',
      '--quiet',
      each.image,
      `docker-archive:${join(into, `${each.name}-${version}.image.tar`)}:${each.image}`,
    )
  }
}

/** Turns a folder of packages into a release. Resolves to the lines of SHA256SUMS. */
export async function completeRelease(folder: string, key: string, notes: string): Promise<string[]> {
  await writeFile(join(folder, 'NOTES.md'), `# Gatehouse ${version}\n\n${notes}\n`)
  await makeRepository(folder, key)
  const lines = await writeChecksums(folder)
  sign(key, '--armor', '--detach-sign', '--output', join(folder, 'SHA256SUMS.asc'), join(folder, 'SHA256SUMS'))
  return lines
}

if (import.meta.main) {
  const { values } = parseArgs({ options: { key: { type: 'string' }, images: { type: 'boolean' } } })
  if (!values.key)
    throw new Error("name the key that signs: npm run release -- --key FINGERPRINT ('gpg --list-secret-keys')")
  const changed = run('git', ['status', '--porcelain'])
  if (changed) throw new Error(`a release is made from a commit, and these are not committed:\n${changed}`)
  const notes = notesOf(await readFile(join(root, 'CHANGELOG.md'), 'utf8'), version)
  run(process.execPath, ['dev/build.ts'])
  const into = join(root, 'release')
  for (const old of [into, `${into}.new`]) await rm(old, { recursive: true, force: true })
  await mkdir(`${into}.new`)
  if (values.images) makeImages(`${into}.new`)
  await makePackages(`${into}.new`, 9, architectures)
  const lines = await completeRelease(`${into}.new`, values.key, notes)
  await rename(`${into}.new`, into)
  console.log(lines.join('\n'))
}
