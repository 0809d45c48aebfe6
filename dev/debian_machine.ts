// A Debian 12 of its own, with systemd as its first process, for drills of what the packages install. Needs root, debootstrap,
// systemd-container and iproute2.
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { copyFile, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { createServer, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout } from 'node:timers/promises'
import { commandsOf } from './page_blocks.ts'

const root = new URL('..', import.meta.url).pathname
/**
 * A network of a few machines for each process, so that drills do not interfere. The machines reach the Debian archive
 * through this process.
 */
const subnet = `10.213.${(process.pid >> 5) & 255}`
const addressOf = (index: number) => `${subnet}.${(process.pid & 31) * 8 + 1 + index}`
const network = { bridge: `gh${process.pid}`, host: addressOf(0), port: 3142 }
let running = 0

function openNetwork(): void {
  if (running++ > 0) return
  run('ip', 'link', 'add', 'name', network.bridge, 'type', 'bridge')
  run('ip', 'address', 'add', `${network.host}/29`, 'dev', network.bridge)
  run('ip', 'link', 'set', network.bridge, 'up')
}

function leaveNetwork(): void {
  if (--running === 0) run('ip', 'link', 'delete', network.bridge)
}

export const run = (command: string, ...args: string[]): string =>
  execFileSync(command, args, {
    cwd: root,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
    maxBuffer: 64 << 20,
  })

export async function timed<Result>(what: string, work: () => Result | Promise<Result>): Promise<Result> {
  const start = Date.now()
  const result = await work()
  console.log(`── ${what}: ${((Date.now() - start) / 1_000).toFixed(1)} s`)
  return result
}

export const makeOwnPackages = (): string => run('npm', 'run', '--silent', 'package')

function mirror(): string {
  const format = '$(REPO_URI) $(ORIGIN) $(COMPONENT) $(CREATED_BY)'
  const rows = run('apt-get', 'indextargets', '--format', format)
    .split('\n')
    .map((row) => row.split(' '))
  const found = rows.find(
    ([url, origin, component, kind]) =>
      origin === 'Debian' && component === 'main' && kind === 'Packages' && !url?.includes('security'),
  )
  if (!found?.[0]) throw new Error("apt knows no Debian archive; run 'apt-get update' first")
  return found[0]
}

/** A clean Debian with systemd. Later ones are copies of the first, which stays in the folder for temporary files. */
export async function makeDebian(folder: string, suite = 'bookworm'): Promise<void> {
  const kept = join(tmpdir(), `gatehouse-drill-${suite}`)
  if (!existsSync(kept)) {
    const made = `${kept}.${process.pid}`
    await bootstrapDebian(made, suite)
    // Two drills may have created one each.
    await rename(made, kept).catch(() => rm(made, { recursive: true }))
  }
  await mkdir(folder, { recursive: true })
  run('cp', '--archive', '--reflink=auto', `${kept}/.`, folder)
}

async function bootstrapDebian(folder: string, suite: string): Promise<void> {
  run('debootstrap', '--variant=minbase', suite, folder, mirror())
  await copyFile('/etc/resolv.conf', join(folder, 'etc/resolv.conf'))
  // If the host accepts an archive that mirrors an earlier day, its machines must too.
  const accepts = run('apt-config', 'dump')
    .split('\n')
    .filter((line) => line.includes('Check-Valid-Until'))
  await writeFile(join(folder, 'etc/apt/apt.conf.d/00archive'), `${accepts.join('\n')}\n`)
  run('chroot', folder, 'apt-get', 'install', '-y', '-qq', '--no-install-recommends', 'systemd', 'systemd-sysv', 'dbus')
}

export async function copyPackages(from: string, machineFolder: string): Promise<void> {
  const to = join(machineFolder, 'root')
  for (const old of (await readdir(to)).filter((name) => name.endsWith('.deb'))) await rm(join(to, old))
  for (const name of (await readdir(from)).filter((each) => each.endsWith('.deb')))
    await copyFile(join(from, name), join(to, name))
}

export type Machine = {
  /** In the network of this process. */
  address: string
  /** Runs a script in its own bash, which ends at the first command that fails. */
  attempt: (script: string) => Promise<{ code: number; output: string }>
  /** Like `attempt`, but rejects with the output if the script fails. */
  sh: (script: string) => Promise<string>
  /** Types each block of shell commands of a page, and prints the commands, their output and the time of each block. */
  typePage: (page: string) => Promise<string>
  shutDown: () => Promise<void>
  /** Kills all processes at once, like a power cut. */
  cutPower: () => Promise<void>
}

/** `index`, from 1 to 5, distinguishes machines that run at the same time. */
export async function boot(folder: string, index = 1): Promise<Machine> {
  const address = addressOf(index)
  const proxy = `Acquire::http::Proxy "http://${network.host}:${network.port}";\n`
  await writeFile(join(folder, 'etc/apt/apt.conf.d/00proxy'), proxy)
  const name = `gh${process.pid}-${index}`
  const place = ['-D', folder, `--machine=${name}`, `--network-bridge=${network.bridge}`]
  const flags = ['--boot', '--register=no', '--keep-unit', '--link-journal=no', '--console=passive']
  openNetwork()
  const groups = controlGroups(name)
  const nspawn = spawn('sh', ['-c', inGroups(groups), 'systemd-nspawn', '-q', ...place, ...flags], { stdio: 'ignore' })
  const end = async (pid: number, signal: NodeJS.Signals) => {
    if (nspawn.exitCode !== null || nspawn.signalCode !== null) return
    const exited = once(nspawn, 'exit')
    process.kill(pid, signal)
    await exited
    run('find', ...groups, '-depth', '-type', 'd', '-delete')
    leaveNetwork()
  }
  const shutDown = () => end(nspawn.pid as number, 'SIGTERM')
  try {
    // systemd-nspawn has another child before the machine's first process.
    const leader = await until(async () => {
      const [pid] = (await readFile(`/proc/${nspawn.pid}/task/${nspawn.pid}/children`, 'utf8')).split(' ')
      const asked = pid && spawnSync('nsenter', ['-t', pid, '-a', '--', 'systemctl', 'is-system-running'])
      return asked && /starting|running|degraded/.test(`${asked.stdout}`) ? pid : undefined
    })
    const enter = ['-t', leader, '-a', '--']
    run('nsenter', '-t', leader, '-n', 'ip', 'address', 'add', `${address}/29`, 'dev', 'host0')
    run('nsenter', '-t', leader, '-n', 'ip', 'link', 'set', 'host0', 'up')
    const path = 'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin'
    const bash = ['env', '-i', 'HOME=/root', path, 'DEBIAN_FRONTEND=noninteractive', 'bash', '-euo', 'pipefail']
    return { address, ...shellsIn([...enter, ...bash]), shutDown, cutPower: () => end(Number(leader), 'SIGKILL') }
  } catch (error) {
    await shutDown()
    throw error
  }
}

/**
 * Each machine has its own unit: its systemd creates groups of the same names below the one in which it starts, and
 * would delete those of another machine when its own unit ends.
 */
const controlGroups = (name: string): string[] =>
  (existsSync('/sys/fs/cgroup/systemd') ? ['systemd', 'unified'] : ['.'])
    .map((hierarchy) => join('/sys/fs/cgroup', hierarchy))
    .filter((hierarchy) => existsSync(hierarchy))
    .map((hierarchy) => join(hierarchy, name))

const inGroups = (groups: string[]): string =>
  [...groups.map((group) => `mkdir ${group} && echo $$ >${group}/cgroup.procs`), 'exec "$0" "$@"'].join(' && ')

function shellsIn(shell: string[]): Pick<Machine, 'attempt' | 'sh' | 'typePage'> {
  async function follow(script: string, onLine: (line: string) => void): Promise<number> {
    const bash = spawn('nsenter', [...shell, '-c', `cd /root; exec 2>&1\n${script}`], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const exited = once(bash, 'exit')
    for await (const line of createInterface({ input: bash.stdout })) onLine(line)
    return (await exited)[0] ?? 1
  }

  async function attempt(script: string) {
    let output = ''
    const code = await follow(script, (line) => {
      output += `${line}\n`
    })
    return { code, output }
  }

  async function sh(script: string): Promise<string> {
    const { code, output } = await attempt(script)
    if (code !== 0) throw new Error(`${script}\nfailed with ${code}:\n${output}`)
    return output
  }

  async function typePage(page: string): Promise<string> {
    const blocks = commandsOf(page)
    const mark = '---- end of block ----'
    const typed = blocks.flatMap((block) => [`cat <<'${mark}'\n${block}${mark}`, block, `echo '${mark}'`]).join('\n')
    let [blockBegan, said] = [Date.now(), '']
    const code = await follow(typed, (line) => {
      // The last output may not end with a newline.
      if (line.endsWith(mark)) {
        if (line !== mark) console.log(`   ${line.slice(0, -mark.length)}`)
        console.log(`── ${((Date.now() - blockBegan) / 1_000).toFixed(1)} s\n`)
        blockBegan = Date.now()
      } else {
        console.log(`   ${line}`)
        said += `${line}\n`
      }
    })
    if (code !== 0) throw new Error(`the page failed with ${code}`)
    return said
  }
  return { attempt, sh, typePage }
}

async function until<Value>(look: () => Promise<Value | undefined> | Value | undefined): Promise<Value> {
  for (const deadline = Date.now() + 120_000; Date.now() < deadline; await setTimeout(200)) {
    const found = await look()
    if (found) return found
  }
  throw new Error('the machine did not start within two minutes')
}

/** Downloads for apt, which requests whole URLs, while a machine runs. */
export async function openArchiveProxy() {
  const proxy = createServer((asked, answer) => {
    const fetched = request(asked.url ?? '', { headers: asked.headers }, (got) => {
      answer.writeHead(got.statusCode ?? 502, got.headers)
      got.pipe(answer)
    })
    fetched.on('error', () => answer.destroy())
    fetched.end()
  }).listen(network.port, network.host)
  await once(proxy, 'listening')
  return () => {
    proxy.close()
    proxy.closeAllConnections()
  }
}

/** With access to the Debian archive. */
export async function withMachine(folder: string, work: (machine: Machine) => Promise<void>): Promise<void> {
  const machine = await boot(folder)
  const closeProxy = await openArchiveProxy()
  try {
    await work(machine)
  } finally {
    closeProxy()
    await machine.cutPower()
  }
}
