// For drills: what the units promise besides coming back after a fault.
import { type Machine, timed } from './debian_machine.ts'
import { inService } from './machine_service.ts'

/** Rejects unless the script fails. */
async function fails(machine: Machine, script: string, expected: RegExp): Promise<void> {
  const { code, output } = await machine.attempt(script)
  if (code === 0 || !expected.test(output)) throw new Error(`${script}\nended with ${code}:\n${output}`)
}

export async function checkRestarts(machine: Machine): Promise<void> {
  await timed('a configuration that NATS rejects makes a reload fail', () => reloads(machine))
  await timed('stopping the migration leaves the control plane running', () => stopMigration(machine))
  await timed('a node whose port is taken starts when the port is free', () => takenPort(machine))
}

const nats = '/etc/gatehouse-nats/nats.conf'
const reload = 'systemctl reload gatehouse-nats.service'
const journal = 'journalctl -u gatehouse-nats.service -o cat -n 20; false'

async function reloads(machine: Machine): Promise<void> {
  await machine.sh(`cp -a ${nats} /run/nats.conf; ${reload}`)
  for (const [change, expected] of [
    // nats-server -t finds this,
    ['echo "listen {" >>', /Parse error/],
    // and accepts these: another folder, which needs a restart, and a variable that the running process does not have.
    [`sed -i 's,"/var/lib/gatehouse-nats","/var/lib/gatehouse-nats/other",'`, /keeps its old configuration/],
    [
      "echo NEW=p1 >/etc/gatehouse-nats/nats.env; sed -i 's,^server_name.*,server_name: $NEW,'",
      /keeps its old configuration/,
    ],
  ] as const) {
    await machine.sh(`${change} ${nats}`)
    await fails(machine, `${reload} || { ${journal}; }`, expected)
    await machine.sh(`cp -a /run/nats.conf ${nats}; rm -f /etc/gatehouse-nats/nats.env; ${reload}`)
  }
}

async function stopMigration(machine: Machine): Promise<void> {
  const pid = 'systemctl show -P MainPID gatehouse.service'
  await machine.sh(
    `before=$(${pid}); systemctl start gatehouse-migrate.service; systemctl stop gatehouse-migrate.service; test "$before" = "$(${pid})"; systemctl is-active gatehouse.service`,
  )
}

async function takenPort(machine: Machine): Promise<void> {
  await machine.sh(`systemctl stop gatehouse-edge.service
    systemd-run --quiet --unit=other /usr/lib/gatehouse/bin/node -e 'require("node:net").createServer().listen(443, "0.0.0.0")'
    systemctl start gatehouse-edge.service; sleep 20
    journalctl -u gatehouse-edge.service -o cat -n 50 | grep 'Address already in use'
    systemctl stop other.service`)
  const why = await inService(machine)
  if (why) throw new Error(why)
}
