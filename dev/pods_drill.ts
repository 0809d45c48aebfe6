// `npm run drill -- pods [--images]`: the images of deploy/Dockerfile, built without Docker, and the pods of the Kubernetes
// overlay for one node, run without Kubernetes. Each container gets the command, environment, files, user, capabilities and
// read-only root of its manifest, in a network of its own. A request must then be served and another refused on port 443.
// Needs root, buildah, debootstrap and kustomize. PostgreSQL is ours instead of that of the manifest. --images builds the
// images again.
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { makeDebian, run, timed } from './debian_machine.ts'
import { buildah, buildImage, images, isBuilt } from './images.ts'
import { inPods } from './pods_scenario.ts'

const root = new URL('..', import.meta.url).pathname
const { values } = parseArgs({ options: { images: { type: 'boolean' }, inside: { type: 'string' } } })

/** A base image of the Dockerfile or the manifests, made from Debian and our engines, because there is no registry. */
async function makeBase(
  image: string,
  fill: (folder: string) => Promise<Record<string, string>>,
  suite?: string,
): Promise<void> {
  if (isBuilt(image)) return
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-image-'))
  await makeDebian(folder, suite)
  const env = await fill(folder)
  const container = buildah('from', 'scratch')
  buildah('add', '-q', container, folder, '/')
  for (const [name, value] of Object.entries(env)) buildah('config', '--env', `${name}=${value}`, container)
  buildah('commit', '-q', container, image)
  buildah('rm', container)
  await rm(folder, { recursive: true })
}

async function addNode(folder: string): Promise<Record<string, string>> {
  await cp(process.execPath, join(folder, 'usr/local/bin/node'))
  await mkdir(join(folder, 'usr/local/lib/node_modules'), { recursive: true })
  const npm = join(run('npm', 'root', '--global').trim(), 'npm')
  await cp(npm, join(folder, 'usr/local/lib/node_modules/npm'), { recursive: true })
  run('ln', '-s', '../lib/node_modules/npm/bin/npm-cli.js', join(folder, 'usr/local/bin/npm'))
  // For machines whose registry certificate has its own authority.
  const authority = process.env.NODE_EXTRA_CA_CERTS
  if (!authority) return {}
  await cp(authority, join(folder, 'usr/local/share/authority.pem'))
  return { NODE_EXTRA_CA_CERTS: '/usr/local/share/authority.pem' }
}

/** HAProxy has its library folder compiled in, so the image uses the same path. */
async function addHaproxy(folder: string): Promise<Record<string, string>> {
  const engines = join(root, '.engines')
  const [, installedIn = engines] =
    /(\/[^\0]+)\/lib\/ld-linux/.exec(await readFile(join(engines, 'haproxy'), 'latin1')) ?? []
  await cp(engines, join(folder, installedIn), { recursive: true })
  run('ln', '-s', join(installedIn, 'haproxy'), join(folder, 'usr/local/sbin/haproxy'))
  return {}
}

async function addNats(folder: string): Promise<Record<string, string>> {
  await cp(join(root, '.engines/nats-server'), join(folder, 'usr/local/bin/nats-server'))
  return {}
}

async function buildImages(): Promise<void> {
  const library = 'docker.io/library'
  await makeBase(`${library}/node:24-trixie-slim`, addNode, 'trixie')
  await makeBase(`${library}/haproxy:3.4`, addHaproxy)
  await makeBase('localhost/nats:2.15-alpine', addNats)
  const cache = join(homedir(), '.npm')
  await mkdir(cache, { recursive: true })
  for (const each of images)
    if (values.images || !isBuilt(`localhost/${each.image}`))
      await timed(`image ${each.image}`, () => buildImage(each, '--pull=never', '--volume', `${cache}:/root/.npm`))
}

/** Runs this file again with its own network, mounts and processes, which all end with it. */
async function enter(): Promise<number> {
  const secrets = join(root, 'deploy/kubernetes/components/one-machine/secrets')
  const overlay = await mkdtemp(join(tmpdir(), 'gatehouse-pods-'))
  await cp(join(root, 'deploy/kubernetes'), overlay, { recursive: true, filter: (source) => source !== secrets })
  run('deploy/compose/prepare.sh', join(overlay, 'components/one-machine/secrets'))
  await writeFile(join(overlay, 'one-node.yaml'), run('kustomize', 'build', join(overlay, 'overlays/one-node')))
  const namespaces = ['--net', '--mount', '--pid', '--fork', '--kill-child', '--mount-proc']
  const child = spawn('unshare', [...namespaces, process.execPath, import.meta.filename, '--inside', overlay], {
    stdio: 'inherit',
  })
  const code = await new Promise<number>((resolve) => child.on('exit', (exitCode) => resolve(exitCode ?? 1)))
  await rm(overlay, { recursive: true })
  return code
}

if (values.inside) {
  run('ip', 'link', 'set', 'lo', 'up')
  await inPods(values.inside)
  process.exit()
} else {
  if (!existsSync(join(root, '.engines/haproxy'))) throw new Error("install the engines first: 'npm run engines'")
  await timed('images', buildImages)
  process.exitCode = await enter()
}
