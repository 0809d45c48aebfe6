// Runs the containers of a pod like a kubelet, as far as our manifests need it.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, chown, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parseAllDocuments } from 'yaml'
import { buildah } from './images.ts'

// biome-ignore lint/suspicious/noExplicitAny: objects of Kubernetes, of which we read a few fields.
type Any = any

/** For images without a PATH. */
const usualPath = 'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/** $(NAME) stands for a variable of the container. */
const expanded = (text: string, values: Record<string, string>): string =>
  text.replaceAll(/\$\((\w+)\)/g, (whole, name) => values[name] ?? whole)

export type Pods = ReturnType<typeof createPods>

/** `folder` keeps volumes and shared files. `hosts` are the names that a cluster's DNS would resolve. */
export function createPods(manifest: string, folder: string, hosts: Record<string, string>) {
  const objects: Any[] = parseAllDocuments(manifest).map((document) => document.toJS())
  const find = (kind: string, name: string): Any =>
    objects.find((each) => each.kind === kind && each.metadata.name.replace(/-[a-z0-9]{10}$/, '') === name) ??
    objects.find((each) => each.kind === kind && each.metadata.name === name)

  const dataOf = (kind: 'ConfigMap' | 'Secret', name: string): Record<string, string> => {
    const { data } = objects.find((each) => each.kind === kind && each.metadata.name === name) ?? {}
    if (!data) throw new Error(`no ${kind} ${name}`)
    if (kind === 'ConfigMap') return data
    return Object.fromEntries(
      Object.entries<string>(data).map(([key, text]) => [key, Buffer.from(text, 'base64').toString()]),
    )
  }

  async function makeVolume(pod: Any, volume: Any): Promise<string> {
    const path = volume.hostPath ? join(folder, volume.hostPath.path) : join(folder, pod.metadata.name, volume.name)
    await mkdir(path, { recursive: true })
    if (volume.emptyDir) await chmod(path, 0o777)
    const sources: Any[] = volume.projected?.sources ?? [volume]
    for (const { secret, configMap } of sources) {
      const source = secret ?? configMap
      if (!source) continue
      const data = dataOf(secret ? 'Secret' : 'ConfigMap', source.secretName ?? source.name)
      for (const [name, text] of Object.entries(data)) {
        const file = join(path, name)
        await writeFile(file, text)
        await chmod(file, source.defaultMode ?? volume.projected.defaultMode)
        await chown(file, 0, pod.spec.template.spec.securityContext.fsGroup)
      }
    }
    return path
  }

  function environmentOf(container: Any): Record<string, string> {
    const of = ({ value, valueFrom }: Any): string =>
      value ?? dataOf('ConfigMap', valueFrom.configMapKeyRef.name)[valueFrom.configMapKeyRef.key]
    const environment: Record<string, string> = Object.assign(
      {},
      ...(container.envFrom ?? []).map(({ configMapRef }: Any) => dataOf('ConfigMap', configMapRef.name)),
    )
    for (const entry of container.env ?? []) environment[entry.name] = expanded(of(entry), environment)
    return environment
  }

  /** Runs as root in the pod before privileges are dropped, like the container runtime. */
  async function start(pod: Any, container: Any): Promise<ChildProcess> {
    const image = container.image.includes('/') ? container.image : `localhost/${container.image}`
    const config: Any = JSON.parse(buildah('inspect', '--type', 'image', image)).OCIv1.config
    const root = buildah('mount', buildah('from', '--pull=never', image))
    const { securityContext: ofPod, volumes } = pod.spec.template.spec
    const own = container.securityContext
    const mounts: string[] = []
    for (const { name, mountPath, readOnly } of container.volumeMounts ?? []) {
      const from = await makeVolume(
        pod,
        volumes.find((volume: Any) => volume.name === name),
      )
      await mkdir(join(root, mountPath), { recursive: true })
      mounts.push(`mount --bind ${from} ${root}${mountPath}`)
      if (readOnly) mounts.push(`mount -o remount,bind,ro ${root}${mountPath}`)
    }
    await writeFile(
      join(root, 'etc/hosts'),
      `127.0.0.1 localhost\n${Object.entries(hosts)
        .map(([name, address]) => `${address} ${name}\n`)
        .join('')}`,
    )
    const script = [
      `mount --bind ${root} ${root}`,
      ...(own.readOnlyRootFilesystem ? [`mount -o remount,bind,ro ${root}`] : []),
      ...mounts,
      `mount -t proc proc ${root}/proc`,
      `mount --rbind /dev ${root}/dev`,
      `exec chroot ${root} env -i "$@"`,
    ]
    const user = own.runAsUser ?? ofPod.runAsUser
    const group = own.runAsGroup ?? ofPod.runAsGroup ?? 0
    const capabilities = (own.capabilities.add ?? []).map((name: string) => `+${name.toLowerCase()}`)
    const setpriv = [
      'setpriv',
      `--bounding-set=${['-all', ...capabilities].join(',')}`,
      '--inh-caps=-all',
      ...(own.allowPrivilegeEscalation ? [] : ['--no-new-privs']),
      ...[`--reuid=${user}`, `--regid=${group}`, `--groups=${ofPod.fsGroup}`],
    ]
    const values = environmentOf(container)
    const environment = Object.entries(values).map(([name, value]) => `${name}=${value}`)
    // A command without arguments does not use those of the image.
    const ofImage = container.command ? [] : (config.Cmd ?? [])
    const given = [...(container.command ?? config.Entrypoint ?? []), ...(container.args ?? ofImage)]
    const command = given.map((word: string) => expanded(word, values))
    const workingDir = ['-C', config.WorkingDir || '/']
    return spawn(
      'unshare',
      // biome-ignore format: one argument list, in the order in which programs hand over.
      ['--mount', '--propagation', 'private', 'sh', '-euc', script.join('\n'), 'sh',
        ...workingDir, usualPath, ...(config.Env ?? []), ...environment, ...setpriv, ...command],
      { stdio: ['ignore', 'pipe', 'pipe'] },
    )
  }

  return {
    find,
    add: (object: Any) => objects.push(object),
    start,
    /** Runs a container until it exits, like a job or an init container. Resolves to its output. */
    async complete(pod: Any, container: Any): Promise<string> {
      const child = await start(pod, container)
      let output = ''
      child.stdout?.on('data', (data) => (output += data))
      child.stderr?.on('data', (data) => (output += data))
      const [code] = await once(child, 'close')
      if (code !== 0) throw new Error(`${container.name} of ${pod.metadata.name} ended with ${code}:\n${output}`)
      return output
    },
  }
}
