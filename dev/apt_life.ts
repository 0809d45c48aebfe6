// `npm run drill -- apt-life [--built] [--machine FOLDER]`: the packages on a clean Debian 12 from their installation to
// their removal: installed and set up, installed again under traffic as by an upgrade, removed, installed again, purged,
// installed again, and all data deleted. With an installation in FOLDER, that one is upgraded.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { copyPackages, type Machine, timed, withMachine } from './debian_machine.ts'
import { inService, startTraffic, withInstallation } from './machine_service.ts'

const root = new URL('..', import.meta.url).pathname
const { values } = parseArgs({ options: { built: { type: 'boolean' }, machine: { type: 'string' } } })

async function requireService(machine: Machine): Promise<void> {
  const why = await inService(machine)
  if (!why) return
  const journal = await machine.sh("journalctl -b -o cat -n 80 -u 'gatehouse*' | cat")
  throw new Error(`not in service: ${why}\n${journal}`)
}

const apt = 'apt-get -qq -y -o Dpkg::Options::=--force-confold'
// Reinstall, because the same version is there.
const install = `${apt} install --reinstall ./gatehouse*_amd64.deb`
/** bash does not end at a command that fails to fail with `!`. */
const not = 'not() { if "$@"; then echo "succeeded: $*"; exit 1; fi; }'
const everyUnit = 'gatehouse.service gatehouse-nats.service gatehouse-edge.service'
const kept = [
  ...['secrets.key', 'database-url', 'database-owner-url', 'setup.env', 'admin-token'].map(
    (name) => `/etc/gatehouse/${name}`,
  ),
  ...['nats.conf', 'operator.conf', 'server.key'].map((name) => `/etc/gatehouse-nats/${name}`),
  ...['joined.env', 'setup.env', 'certificates/app.example.pem'].map((name) => `/etc/gatehouse-edge/${name}`),
  '/var/lib/gatehouse-edge/nats.creds',
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

await withInstallation(values, async (folder) => {
  await copyPackages(join(root, 'packages'), folder)
  await withMachine(folder, async (machine) => {
    await requireService(machine)
    for (const [what, work] of Object.entries(steps)) await timed(what, () => work(machine))
  })
})
