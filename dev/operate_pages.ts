// `npm run drill -- operate-pages [--built] [--machine FOLDER] [--only PATTERN]`: the commands of every page in docs/operate,
// as printed, on a Debian 12 that docs/guides/install-debian.md has set up. Each page is typed into a shell of its own, and
// leaves the machine in service and doctor without a failed check. At the end, a new machine is made from a backup. The
// packages that the upgrade installs are the same with a later version. A machine in FOLDER is made once and kept.
import { copyFile, glob, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { parseArgs } from 'node:util'
import { copyPackages, type Machine, makeDebian, run, timed, withMachine } from './debian_machine.ts'
import { inService, withInstallation } from './machine_service.ts'
import { blocksOf, commandsOf } from './page_blocks.ts'

const root = new URL('..', import.meta.url).pathname
const restorePage = 'docs/operate/backup-and-restore.md'
const { values } = parseArgs({
  options: {
    built: { type: 'boolean' },
    machine: { type: 'string' },
    only: { type: 'string', default: '' },
  },
})

/** As a release would make them, so that apt upgrades. */
async function makeLaterPackages(): Promise<string> {
  const later = await mkdtemp(join(tmpdir(), 'gatehouse-later-'))
  for await (const name of glob('*.deb', { cwd: join(root, 'packages') })) {
    const contents = join(later, basename(name, '.deb'))
    run('dpkg-deb', '--raw-extract', join(root, 'packages', name), contents)
    run('sed', '--in-place', 's/^Version: .*/&+later/', join(contents, 'DEBIAN/control'))
    run('dpkg-deb', '--build', '--root-owner-group', '-z1', contents, join(later, name))
    await rm(contents, { recursive: true })
  }
  return later
}

async function typePages(machine: Machine): Promise<void> {
  const pages = (await Array.fromAsync(glob('docs/operate/*.md', { cwd: root }))).sort()
  for (const page of pages.filter((file) => new RegExp(values.only).test(file))) {
    const text = await readFile(join(root, page), 'utf8')
    if (commandsOf(text).length === 0) continue
    await timed(page, () => machine.typePage(text))
    await requireService(machine, page)
  }
}

async function requireService(machine: Machine, page: string): Promise<void> {
  const why = await inService(machine)
  const journal = () => machine.sh("journalctl -b -o cat -n 80 -u 'gatehouse*' | cat")
  if (why) throw new Error(`not in service after ${page}: ${why}\n${await journal()}`)
  const { code, output } = await machine.attempt('gatehouse doctor')
  if (code !== 0) throw new Error(`doctor fails after ${page}:\n${output}`)
}

/** With the name and the backup of a machine that is gone, another serves the same. */
async function restoreElsewhere(lost: string): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-restored-'))
  try {
    await makeDebian(folder)
    await copyPackages(join(root, 'packages'), folder)
    const backups = (await readdir(join(lost, 'var/lib/gatehouse-backup'))).sort()
    const kept = ['gatehouse-backup.key', 'app.example.crt', 'policy-id'].map((name) => join(lost, 'root', name))
    for (const file of [join(lost, 'var/lib/gatehouse-backup', `${backups.at(-1)}`), ...kept])
      await copyFile(file, join(folder, 'root', basename(file)))
    await withMachine(folder, async (machine) => {
      const [install, restore] = await Promise.all(
        ['docs/guides/install-debian.md', restorePage].map((page) => readFile(join(root, page), 'utf8')),
      )
      const steps = (install ?? '').split(/^## 3/m)[0] ?? ''
      const onNewMachine = /^## Restore on a new machine\n.*?(?=^## )/ms.exec(restore ?? '')?.[0] ?? ''
      const commands = blocksOf(onNewMachine).map(({ text }) => `\`\`\`sh\n${text}\`\`\`\n`)
      await machine.typePage([steps, ...commands].join('\n'))
      await requireService(machine, `${restorePage} on a new machine`)
    })
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

await withInstallation(values, async (folder) => {
  const later = await makeLaterPackages()
  await copyPackages(later, folder).finally(() => rm(later, { recursive: true }))
  await withMachine(folder, async (machine) => {
    await requireService(machine, 'docs/guides/install-debian.md')
    await timed('all pages', () => typePages(machine))
  })
  if (new RegExp(values.only).test(restorePage))
    await timed(`${restorePage} on a new machine`, () => restoreElsewhere(folder))
})
