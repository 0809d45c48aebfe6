// `npm run drill -- boot [--built] [--machine FOLDER] [--only PATTERN]`: PostgreSQL, NATS, the control plane and a node on
// one Debian machine, each of them and each two of them missing at boot, slow, restarted, killed or frozen. Nothing is
// repaired by hand: the drill fails unless a change through the API then takes effect on traffic. Prints the seconds that
// each took. A machine in FOLDER is made once and kept.
import { dirname } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { checkRestarts } from './boot_checks.ts'
import { boot, type Machine, timed } from './debian_machine.ts'
import { inService, startTraffic, withInstallation } from './machine_service.ts'

const { values } = parseArgs({
  options: {
    built: { type: 'boolean' },
    machine: { type: 'string' },
    only: { type: 'string', default: '' },
  },
})
/** How long a part is missing, slow or frozen. Longer than systemd's default of five attempts in ten seconds. */
const faultSeconds = 15

const units = {
  PostgreSQL: 'postgresql@15-main.service',
  NATS: 'gatehouse-nats.service',
  'control plane': 'gatehouse.service',
  node: 'gatehouse-edge.service',
}
type Part = keyof typeof units
const parts = Object.keys(units) as Part[]
const pairs = parts.flatMap((one, index) => parts.slice(index + 1).map((other): Part[] => [one, other]))
const rows: Part[][] = [...parts.map((part) => [part]), ...pairs]

type Outcome = {
  /** When the fault ended, or when it began if it ends by itself. */
  began: number
  /**
   * Call it when everything is in service again. Resolves to the requests that failed at the edge, which served
   * meanwhile, or ''.
   */
  settle: () => Promise<string>
}
type Fault = (units: string[]) => Promise<Outcome>

/** In use, and replaced by every reboot. */
let machine: Machine
let folder: string

async function reboot(): Promise<number> {
  await machine.cutPower()
  const began = Date.now()
  machine = await boot(folder)
  return began
}

const under =
  (fault: (units: string[]) => string): Fault =>
  async (names) => {
    const stopTraffic = await startTraffic(machine)
    const began = Date.now()
    await machine.sh(fault(names))
    const settle = async () => {
      const failed = await stopTraffic()
      // A faulty node cannot respond meanwhile.
      return names.includes(units.node) ? '' : failed
    }
    return { began, settle }
  }

/** All processes of a unit. An agent that is killed alone leaves HAProxy to the next one. */
const processesOf: Record<string, string> = {
  [units.PostgreSQL]: 'pgrep -u postgres',
  [units.NATS]: 'pgrep -u gatehouse-nats',
  [units['control plane']]: 'systemctl show -P MainPID gatehouse.service',
  [units.node]: 'pgrep -u gatehouse-edge',
}
const signal = (name: string, unit: string): string => `kill -${name} $(${processesOf[unit]})`
/**
 * Spares PostgreSQL's first process, which Debian does not restart; it recovers from the loss of the others as from a
 * crash.
 */
const kill = (unit: string): string =>
  unit === units.PostgreSQL
    ? 'pkill --signal=KILL --parent "$(head -1 /run/postgresql/15-main.pid)"'
    : signal('KILL', unit)

const faults: Record<string, Fault> = {
  /** As on a separate machine that boots later. */
  async 'down at boot'(names) {
    await machine.sh(`systemctl mask --quiet ${names.join(' ')}`)
    await reboot()
    await setTimeout(faultSeconds * 1_000)
    await machine.sh(`systemctl unmask --quiet ${names.join(' ')}; systemctl start --no-block ${names.join(' ')}`)
    return { began: Date.now(), settle: async () => '' }
  },
  async 'slow at boot'(names) {
    const dropIns = names.map((unit) => `/etc/systemd/system/${unit}.d/slow.conf`)
    const slow = `[Service]\\nExecStartPre=/bin/sleep ${faultSeconds}\\n`
    await machine.sh(dropIns.map((file) => `mkdir -p ${dirname(file)}; printf '${slow}' >${file}`).join('\n'))
    const began = await reboot()
    const settle = () => machine.sh(`rm ${dropIns.join(' ')}; systemctl daemon-reload`)
    return { began, settle }
  },
  restarted: under((names) => `systemctl restart ${names.join(' ')}`),
  killed: under((names) => names.map(kill).join('\n')),
  frozen: under((names) =>
    [
      ...names.map((unit) => signal('STOP', unit)),
      `sleep ${faultSeconds}`,
      ...names.map((unit) => signal('CONT', unit)),
    ].join('\n'),
  ),
}

/** Resolves to the table's cell, and whether everything was well. */
async function cause(what: string, fault: Fault, row: Part[]): Promise<{ cell: string; isWell: boolean }> {
  const { began, settle } = await fault(row.map((part) => units[part]))
  const why = await inService(machine)
  const seconds = `${((Date.now() - began) / 1_000).toFixed(0)} s`
  const failed = await settle()
  const cell = why ? 'NOT IN SERVICE' : failed ? `${seconds}, ${failed}` : seconds
  console.log(`   ${what}: ${cell}`)
  const isWell = !why && !failed
  if (!isWell) console.log(why, await machine.sh("journalctl -b -o cat -n 60 -u 'gatehouse*' -u 'postgresql*' | cat"))
  return { cell, isWell }
}

async function runMatrix(): Promise<void> {
  const table: string[][] = []
  const broken: string[] = []
  for (const row of rows) {
    const cells = [row.join(' and ')]
    for (const [name, fault] of Object.entries(faults)) {
      const what = `${row.join(' and ')} ${name}`
      const isWanted = new RegExp(values.only).test(what)
      const { cell, isWell } = isWanted ? await cause(what, fault, row) : { cell: '', isWell: true }
      cells.push(cell)
      if (!isWell) broken.push(what)
    }
    table.push(cells)
  }
  printTable([['', ...Object.keys(faults)], ...table])
  if (broken.length > 0) throw new Error(`not in service by itself, or with failed requests: ${broken.join('; ')}`)
}

function printTable(table: string[][]): void {
  const widths = table[0]?.map((_, column) => Math.max(...table.map((row) => row[column]?.length ?? 0))) ?? []
  const line = (cells: string[]) => `| ${cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(' | ')} |`
  const [head = [], ...body] = table
  console.log([line(head), `|${widths.map((width) => '-'.repeat(width + 2)).join('|')}|`, ...body.map(line)].join('\n'))
}

await withInstallation(values, async (made) => {
  folder = made
  machine = await boot(folder)
  try {
    const why = await inService(machine)
    if (why) throw new Error(`not in service after a normal boot: ${why}`)
    if (!values.only) await checkRestarts(machine)
    await timed('all faults', runMatrix)
  } finally {
    await machine.cutPower()
  }
})
