// What a kubelet does with the containers of a pod, as far as our manifests ask for it.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, chown, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parseAllDocuments } from 'yaml'
import { buildah } from './images.ts'

// biome-ignore lint/suspicious/noExplicitAny: objects of Kubernetes, of which we read a few fields.
type Any = any

/** For images that set no PATH. */
const usualPath = 'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

export type Pods = ReturnType<typeof createPods>

/** `folder` keeps volumes and the files that containers share. `hosts` are the names that a cluster's DNS would know. */
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
    const source = volume.secret ?? volume.configMap
    if (!source) return path
    const data = dataOf(volume.secret ? 'Secret' : 'ConfigMap', source.secretName ?? source.name)
    const items = source.items ?? Object.keys(data).map((key) => ({ key, path: key }))
    for (const item of items) {
      const file = join(path, item.path)
      await writeFile(file, data[item.key] ?? '')
      await chmod(file, source.defaultMode)
      await chown(file, 0, pod.spec.template.spec.securityContext.fsGroup)
    }
    return path
  }

  function environmentOf(container: Any): Record<string, string> {
    const of = ({ value, valueFrom }: Any): string =>
      value ?? dataOf('ConfigMap', valueFrom.configMapKeyRef.name)[valueFrom.configMapKeyRef.key]
    return {
      ...Object.assign(
        {},
        ...(container.envFrom ?? []).map(({ configMapRef, secretRef }: Any) =>
          configMapRef ? dataOf('ConfigMap', configMapRef.name) : dataOf('Secret', secretRef.name),
        ),
      ),
      ...Object.fromEntries((container.env ?? []).map((entry: Any) => [entry.name, of(entry)])),
    }
  }

  /** As root in the pod, before any right is given up: what the container's runtime does. */
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
    const group = ofPod.runAsGroup ?? 0
    const capabilities = (own.capabilities.add ?? []).map((name: string) => `+${name.toLowerCase()}`)
    const setpriv = [
      'setpriv',
      `--bounding-set=${['-all', ...capabilities].join(',')}`,
      '--inh-caps=-all',
      ...(own.allowPrivilegeEscalation ? [] : ['--no-new-privs']),
      ...[`--reuid=${user}`, `--regid=${group}`, `--groups=${ofPod.fsGroup}`],
    ]
    const environment = Object.entries(environmentOf(container)).map(([name, value]) => `${name}=${value}`)
    // A command without arguments takes none from the image.
    const ofImage = container.command ? [] : (config.Cmd ?? [])
    const command = [...(container.command ?? config.Entrypoint ?? []), ...(container.args ?? ofImage)]
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
    /** Runs a container to its end, like a job or an init container. Resolves to its output. */
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
