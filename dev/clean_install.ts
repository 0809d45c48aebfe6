// `npm run drill -- install [--built] [folder]`: the commands of docs/guides/install-debian.md, as printed, on a clean
// Debian 12 with systemd as its first process: from the packages to a refused and an allowed request. The folder is made,
// and removed at the end.
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { boot, copyPackages, makeDebian, makeOwnPackages, openArchiveProxy, timed } from './debian_machine.ts'

const root = new URL('..', import.meta.url).pathname
const { values, positionals } = parseArgs({ options: { built: { type: 'boolean' } }, allowPositionals: true })
const began = Date.now()

if (!values.built) await timed('packages', makeOwnPackages)
const folder = positionals[0] ?? (await mkdtemp(join(tmpdir(), 'gatehouse-debian-')))
try {
  await timed('a clean Debian 12 (debootstrap, systemd)', () => makeDebian(folder))
  await copyPackages(join(root, 'packages'), folder)
  const machine = await timed('its start', () => boot(folder))
  const closeProxy = await openArchiveProxy()
  try {
    const page = await readFile(join(root, 'docs/guides/install-debian.md'), 'utf8')
    const said = await timed(
      'docs/guides/install-debian.md, from the packages to a refused and an allowed request',
      () => machine.typePage(page),
    )
    if (!/^127\.0\.0\.1 200\n127\.0\.0\.9 403\n/m.test(said))
      throw new Error('no request was allowed and another refused')
  } finally {
    closeProxy()
    await machine.shutDown()
  }
  console.log(`── all: ${((Date.now() - began) / 1_000).toFixed(1)} s`)
} finally {
  await rm(folder, { recursive: true, force: true })
}
