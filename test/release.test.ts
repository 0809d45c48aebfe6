// What `npm run release` makes, as those who get it read it: gpg, sha256sum and apt.
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { completeRelease, notesOf } from '../dev/release.ts'
import { version } from '../src/config/version.ts'

const missing = ['dpkg-deb', 'gpg', 'apt-ftparchive'].filter((tool) => spawnSync(tool, ['--version']).error)

/** An apt that knows this repository and nothing else, and what it says to an update. */
async function aptOf(folder: string, repository: string) {
  await mkdir(join(folder, 'lists/partial'), { recursive: true })
  await mkdir(join(folder, 'archives/partial'), { recursive: true })
  await writeFile(join(folder, 'status'), '')
  const keyring = join(repository, 'gatehouse-archive-keyring.gpg')
  await writeFile(join(folder, 'sources.list'), `deb [signed-by=${keyring}] file:${repository} stable main\n`)
  const options = [
    ...['-o', `Dir::Etc::sourcelist=${folder}/sources.list`, '-o', 'Dir::Etc::sourceparts=/dev/null'],
    ...['-o', `Dir::State=${folder}`, '-o', `Dir::State::status=${folder}/status`, '-o', `Dir::Cache=${folder}`],
    ...['-o', 'APT::Sandbox::User=root', '-o', 'Acquire::Languages=none', '-o', 'APT::Architecture=arm64'],
  ]
  const apt = (...args: string[]) => {
    const { status, stdout, stderr } = spawnSync('apt-get', ['-q', ...options, ...args], {
      encoding: 'utf8',
      cwd: folder,
    })
    return { status, output: stdout + stderr }
  }
  return apt
}

test('a release is signed, complete, and a repository that apt takes packages from, and refuses once it was changed', async (t) => {
  if (missing.length > 0) return t.skip(`not installed: ${missing.join(', ')}`)
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-release-'))
  t.after(() => rm(folder, { recursive: true }))
  process.env.GNUPGHOME = join(folder, 'gnupg')
  t.after(() => {
    spawnSync('gpgconf', ['--kill', 'all'])
    delete process.env.GNUPGHOME
  })
  await mkdir(process.env.GNUPGHOME, { mode: 0o700 })
  const key = 'release@gatehouse.test'
  execFileSync(
    'gpg',
    ['--batch', '--quiet', '--passphrase', '', '--quick-generate-key', key, 'ed25519', 'sign', 'never'],
    {
      stdio: 'ignore',
    },
  )

  const into = join(folder, 'release')
  await mkdir(into)
  for (const architecture of ['amd64', 'arm64']) {
    const contents = join(folder, architecture, 'DEBIAN')
    await mkdir(contents, { recursive: true })
    const control = ['Package: gatehouse', `Version: ${version}`, `Architecture: ${architecture}`, 'Maintainer: a test']
    await writeFile(join(contents, 'control'), `${control.join('\n')}\nDescription: a test\n`)
    const deb = join(into, `gatehouse_${version}_${architecture}.deb`)
    execFileSync('dpkg-deb', ['--root-owner-group', '--build', join(folder, architecture), deb], { stdio: 'ignore' })
  }
  const lines = await completeRelease(into, key, 'Everything is new.')
  const debs = ['amd64', 'arm64'].map((each) => `gatehouse_${version}_${each}.deb`)
  assert.deepEqual(
    lines.map((line) => line.split('  ')[1]),
    ['NOTES.md', ...debs],
  )
  execFileSync('sha256sum', ['--check', '--quiet', 'SHA256SUMS'], { cwd: into })
  execFileSync('gpg', ['--batch', '--quiet', '--verify', 'SHA256SUMS.asc', 'SHA256SUMS'], {
    cwd: into,
    stdio: 'ignore',
  })

  const apt = await aptOf(join(folder, 'apt-1'), join(into, 'apt'))
  assert.deepEqual([apt('update').status, apt('download', 'gatehouse').status], [0, 0])

  const tampered = join(folder, 'tampered')
  await cp(join(into, 'apt'), tampered, { recursive: true })
  const signed = join(tampered, 'dists/stable/InRelease')
  await writeFile(signed, (await readFile(signed, 'utf8')).replace('Origin: Gatehouse', 'Origin: Another'))
  const refused = (await aptOf(join(folder, 'apt-2'), tampered))('update')
  assert.match(refused.output, /BADSIG|invalid/i)
})

test('notes are those of the version, and entries without a version keep a release from being made', () => {
  const changelog =
    '# Changelog\n\n## [Unreleased]\n\n## [1.1.0] - 2030-01-01\n\n### Added\n\n- this\n\n## [1.0.0] - 2029\n\n- that\n'
  assert.equal(notesOf(changelog, '1.1.0'), '### Added\n\n- this')
  assert.throws(() => notesOf(changelog, '1.2.0'), /no section for 1\.2\.0/)
  assert.throws(() => notesOf(changelog.replace('[Unreleased]\n', '[Unreleased]\n\n- more\n'), '1.1.0'), /Unreleased/)
})
