// `npm run drill:install`: the commands of docs/install.md, as printed, on a clean Debian 12 with systemd as its first process:
// from the packages to a refused and an allowed request. Needs root, debootstrap, systemd-container and iproute2.
//   node dev/clean_install.ts [--built] [folder]      the folder is made, and removed at the end
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { copyFile, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout } from 'node:timers/promises'
import { parseArgs } from 'node:util'

const root = new URL('..', import.meta.url).pathname
const { values, positionals } = parseArgs({ options: { built: { type: 'boolean' } }, allowPositionals: true })
const machine = 'gatehouse'
/** A network of its own, so that its ports are free whatever runs here. It reaches the Debian archive through us. */
const network = { host: '10.213.67.1', guest: '10.213.67.2', port: 3142 }

const began = Date.now()
const run = (command: string, ...args: string[]): string =>
  execFileSync(command, args, {
    cwd: root,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
    maxBuffer: 64 << 20,
  })

async function timed<Result>(what: string, work: () => Result | Promise<Result>): Promise<Result> {
  const start = Date.now()
  const result = await work()
  console.log(`── ${what}: ${((Date.now() - start) / 1_000).toFixed(1)} s`)
  return result
}

/** The archive that this machine uses. */
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

async function makeDebian(folder: string): Promise<void> {
  run('debootstrap', '--variant=minbase', 'bookworm', folder, mirror())
  await copyFile('/etc/resolv.conf', join(folder, 'etc/resolv.conf'))
  // Where this machine accepts an archive that is a copy of an earlier day, so must the other.
  const accepts = run('apt-config', 'dump')
    .split('\n')
    .filter((line) => line.includes('Check-Valid-Until'))
  await writeFile(join(folder, 'etc/apt/apt.conf.d/00archive'), `${accepts.join('\n')}\n`)
  run('chroot', folder, 'apt-get', 'install', '-y', '-qq', '--no-install-recommends', 'systemd', 'systemd-sysv', 'dbus')
  await writeFile(
    join(folder, 'etc/apt/apt.conf.d/00proxy'),
    `Acquire::http::Proxy "http://${network.host}:${network.port}";\n`,
  )
}

/** Resolves to a way to run a shell in it, and one to end it. */
async function boot(folder: string) {
  const flags = ['--boot', '--register=no', '--keep-unit', '--network-veth', '--link-journal=no', '--console=passive']
  const nspawn = spawn('systemd-nspawn', ['-q', '-D', folder, `--machine=${machine}`, ...flags], { stdio: 'ignore' })
  const stop = async () => {
    if (nspawn.exitCode !== null) return
    nspawn.kill('SIGTERM')
    await once(nspawn, 'exit')
  }
  try {
    const leader = await until(
      async () => (await readFile(`/proc/${nspawn.pid}/task/${nspawn.pid}/children`, 'utf8')).split(' ')[0],
    )
    const inside = (...command: string[]) => ['-t', leader, '-a', '--', ...command]
    await until(
      () =>
        spawnSync('nsenter', inside('systemctl', 'is-system-running'))
          .stdout?.toString()
          .match(/running|degraded/)?.[0],
    )
    const link = `ve-${machine}`
    run('ip', 'address', 'add', `${network.host}/30`, 'dev', link)
    run('ip', 'link', 'set', link, 'up')
    run('nsenter', '-t', leader, '-n', 'ip', 'address', 'add', `${network.guest}/30`, 'dev', 'host0')
    run('nsenter', '-t', leader, '-n', 'ip', 'link', 'set', 'host0', 'up')
    return {
      shell: inside(
        'env',
        '-i',
        'HOME=/root',
        'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin',
        'DEBIAN_FRONTEND=noninteractive',
        'bash',
        '-euo',
        'pipefail',
      ),
      stop,
    }
  } catch (error) {
    await stop()
    throw error
  }
}

async function until<Value>(look: () => Promise<Value | undefined> | Value | undefined): Promise<Value> {
  for (const deadline = Date.now() + 120_000; Date.now() < deadline; await setTimeout(200)) {
    const found = await look()
    if (found) return found
  }
  throw new Error('the machine did not start within two minutes')
}

/** Fetches for apt, which asks for whole URLs. */
async function openProxy() {
  const proxy = createServer((asked, answer) => {
    const fetched = request(asked.url ?? '', { headers: asked.headers }, (got) => {
      answer.writeHead(got.statusCode ?? 502, got.headers)
      got.pipe(answer)
    })
    fetched.on('error', () => answer.destroy())
    fetched.end()
  }).listen(network.port, network.host)
  await once(proxy, 'listening')
  return proxy
}

/** Types the page into one shell, and prints what it prints and how long each block takes. Resolves to all of it. */
async function typePage(shell: string[]): Promise<string> {
  const page = await readFile(join(root, 'docs/install.md'), 'utf8')
  const blocks = [...page.matchAll(/^```sh\n(.*?)^```/gms)].map(([, commands = '']) => commands)
  const mark = '---- end of block ----'
  const typed = blocks.flatMap((block) => [`cat <<'${mark}'\n${block}${mark}`, block, `echo '${mark}'`]).join('\n')
  const bash = spawn('nsenter', [...shell, '-c', `cd /root; exec 2>&1\n${typed}`], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const exited = once(bash, 'exit')
  let [blockBegan, said] = [Date.now(), '']
  for await (const line of createInterface({ input: bash.stdout })) {
    if (line !== mark) {
      console.log(`   ${line}`)
      said += `${line}\n`
      continue
    }
    console.log(`── ${((Date.now() - blockBegan) / 1_000).toFixed(1)} s\n`)
    blockBegan = Date.now()
  }
  const [code] = await exited
  if (code !== 0) throw new Error(`the page failed with ${code}`)
  return said
}

if (!values.built) await timed('packages', () => run('npm', 'run', '--silent', 'package'))
const folder = positionals[0] ?? (await mkdtemp(join(tmpdir(), 'gatehouse-debian-')))
try {
  await timed('a clean Debian 12 (debootstrap, systemd)', () => makeDebian(folder))
  for (const name of (await readdir(join(root, 'packages'))).filter((each) => each.endsWith('.deb')))
    await copyFile(join(root, 'packages', name), join(folder, 'root', name))
  const { shell, stop } = await timed('its start', () => boot(folder))
  const proxy = await openProxy()
  try {
    const said = await timed('docs/install.md, from the packages to a refused and an allowed request', () =>
      typePage(shell),
    )
    if (!/^127\.0\.0\.1 200\n127\.0\.0\.9 403\n/m.test(said))
      throw new Error('no request was allowed and another refused')
  } finally {
    proxy.close()
    proxy.closeAllConnections()
    await stop()
  }
  console.log(`── all: ${((Date.now() - began) / 1_000).toFixed(1)} s`)
} finally {
  await rm(folder, { recursive: true, force: true })
}
