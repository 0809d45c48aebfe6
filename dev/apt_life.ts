// `npm run drill -- apt-life [--built] [--machine FOLDER] [--from COMMIT]`: the packages on a clean Debian 12 from their
// installation to their removal: installed and set up, installed again under traffic as by an upgrade, removed, installed
// again, purged, installed again, and all data deleted. With an installation in FOLDER, that one is upgraded. With COMMIT,
// which is that of 0.2.0 (5ef758b) or near it, its packages are installed first, by its own page.
import { existsSync } from 'node:fs'
import { cp, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { copyPackages, type Machine, run, timed, withMachine } from './debian_machine.ts'
import { inService, startTraffic, withInstallation } from './machine_service.ts'

const root = new URL('..', import.meta.url).pathname
const { values } = parseArgs({
  options: { built: { type: 'boolean' }, machine: { type: 'string' }, from: { type: 'string' } },
})

/** Built once from the history, and kept in the folder for temporary files. */
async function releaseOf(commit: string) {
  const packages = join(tmpdir(), `gatehouse-packages-${commit}`)
  const page = join(packages, 'install.md')
  if (existsSync(packages)) return { packages, page }
  const clone = await mkdtemp(join(tmpdir(), 'gatehouse-older-'))
  try {
    run('git', 'clone', '--quiet', '.', clone)
    run('git', '-C', clone, 'checkout', '--quiet', commit)
    run('npm', '--prefix', clone, 'ci', '--no-audit', '--no-fund', '--loglevel=error')
    run('npm', '--prefix', clone, 'run', '--silent', 'package')
    // Its last block sends requests immediately, but its agent needs two seconds for a new certificate.
    const [installed = ''] = (await readFile(join(clone, 'docs/install.md'), 'utf8')).split(/^## 5/m)
    await cp(join(clone, 'packages'), `${packages}.new`, { recursive: true })
    await writeFile(join(`${packages}.new`, 'install.md'), installed)
    await rename(`${packages}.new`, packages)
  } finally {
    await rm(clone, { recursive: true })
  }
  return { packages, page }
}

async function requireService(machine: Machine): Promise<void> {
  const why = await inService(machine)
  if (!why) return
  const journal = await machine.sh("journalctl -b -o cat -n 80 -u 'gatehouse*' | cat")
  throw new Error(`not in service: ${why}\n${journal}`)
}

const apt = 'apt-get -qq -y -o Dpkg::Options::=--force-confold'
// Reinstall, because the same version is already installed.
const install = `${apt} install --reinstall ./gatehouse*_amd64.deb`
/** `set -e` does not stop bash at a failing `!` command. */
const not = 'not() { if "$@"; then echo "succeeded: $*"; exit 1; fi; }'
const everyUnit = 'gatehouse.service gatehouse-nats.service gatehouse-edge.service'
/** 0.2.0 uses passwords for NATS. */
const ofNats = values.from
  ? ['/etc/gatehouse-nats/authorization.conf', '/etc/gatehouse-nats/nats.env', '/etc/gatehouse-edge/nats-password']
  : ['/etc/gatehouse-nats/operator.conf', '/etc/gatehouse-edge/joined.env', '/var/lib/gatehouse-edge/nats.creds']
const kept = [
  ...['secrets.key', 'database-url', 'database-owner-url', 'setup.env', 'admin-token'].map(
    (name) => `/etc/gatehouse/${name}`,
  ),
  ...['nats.conf', 'server.key'].map((name) => `/etc/gatehouse-nats/${name}`),
  ...['setup.env', 'certificates/app.example.pem'].map((name) => `/etc/gatehouse-edge/${name}`),
  ...ofNats,
].join(' ')

async function upgrade(machine: Machine): Promise<void> {
  const pids = 'systemctl show -P MainPID gatehouse-nats.service; pgrep -o haproxy'
  const before = await machine.sh(pids)
  const stopTraffic = await startTraffic(machine)
  await machine.sh(install)
  await requireService(machine)
  const failed = await stopTraffic()
  if (failed) throw new Error(failed)
  const after = await machine.sh(pids)
  if (after !== before) throw new Error(`NATS or HAProxy was restarted: ${before} ${after}`)
  await machine.sh('gatehouse doctor')
}

const steps: Record<string, (machine: Machine) => Promise<unknown>> = {
  'upgrade, no request failed': upgrade,
  'remove: all is stopped, and all data is there': (machine) =>
    machine.sh(`${not}; ${apt} remove gatehouse gatehouse-edge
      for unit in ${everyUnit}; do not systemctl --quiet is-active $unit; done
      not pgrep haproxy; ls ${kept}`),
  'install: in service by itself': async (machine) => {
    await machine.sh(install)
    await requireService(machine)
    await machine.sh(`systemctl is-enabled ${everyUnit}`)
  },
  'a disabled service stays disabled': async (machine) => {
    const states = `${not}; not systemctl is-active gatehouse-edge.service; test "$(systemctl is-enabled gatehouse-edge.service || true)" = disabled`
    await machine.sh(`systemctl disable --quiet --now gatehouse-edge.service; ${install}; ${states}`)
    await machine.sh(`${apt} remove gatehouse-edge; ${install}; ${states}`)
    await machine.sh('systemctl enable --quiet --now gatehouse-edge.service')
    await requireService(machine)
  },
  'purge: secrets and data are there': (machine) =>
    machine.sh(`${not}; ${apt} purge gatehouse gatehouse-edge; ls ${kept}
      test -z "$(find /etc/systemd -name 'gatehouse*')"`),
  'install: in service by itself after a purge': async (machine) => {
    await machine.sh(install)
    await requireService(machine)
  },
  'the node alone: its own commands': (machine) =>
    machine.sh(`${not}; ${apt} remove gatehouse; not command -v gatehouse; gatehouse-edge version; gatehouse-edge status; gatehouse-edge help
      { gatehouse-edge doctor || true; } | grep -i 'edge'`),
  'everything removed, as the page says': async (machine) => {
    const page = await readFile(join(root, 'docs/guides/install-debian.md'), 'utf8')
    const commands = /^To remove everything.*?^```\n(.*?)^```/ms.exec(page)?.[1]
    if (!commands) throw new Error('docs/guides/install-debian.md does not say how to remove everything')
    await machine.sh(commands)
    const left =
      await machine.sh(`cd /; find / -xdev -name '*gatehouse*' -not -path '/proc/*' -not -path '/root/*' -not -path '/var/log/*'
      id gatehouse-edge 2>&1 || true; runuser -u postgres -- psql -Atc "select datname from pg_database where datname = 'gatehouse'"`)
    if (left.replace(/^id: .*no such user\n/m, '')) throw new Error(`left: ${left}`)
  },
}

async function liveThrough(folder: string): Promise<void> {
  await copyPackages(join(root, 'packages'), folder)
  await withMachine(folder, async (machine) => {
    await requireService(machine)
    for (const [what, work] of Object.entries(steps)) await timed(what, () => work(machine))
  })
}

await withInstallation(values, liveThrough, values.from ? await releaseOf(values.from) : undefined)
