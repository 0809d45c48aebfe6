// Builds the container images of deploy/Dockerfile with buildah, which needs no daemon.
import { execFileSync } from 'node:child_process'
import { version } from '../src/config/version.ts'

const root = new URL('..', import.meta.url).pathname
/**
 * Slower than their alternatives, but they work in containers and on every file system. Your own settings take
 * precedence.
 */
const environment = { STORAGE_DRIVER: 'vfs', BUILDAH_ISOLATION: 'chroot', ...process.env }

export const images = [
  { target: 'control-plane', name: 'gatehouse', image: `gatehouse:${version}` },
  { target: 'edge', name: 'gatehouse-edge', image: `gatehouse-edge:${version}` },
] as const

export const buildah = (...args: string[]): string =>
  execFileSync('buildah', args, {
    cwd: root,
    env: environment,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
    maxBuffer: 64 << 20,
  }).trim()

export const isBuilt = (image: string): boolean =>
  buildah('images', '--format', '{{.Name}}:{{.Tag}}').split('\n').includes(image)

export function buildImage({ target, image }: (typeof images)[number], ...flags: string[]): void {
  const files = ['--file', 'deploy/Dockerfile', '--ignorefile', 'deploy/Dockerfile.dockerignore']
  buildah('bud', '--layers', '--format', 'docker', '--target', target, '--tag', image, ...flags, ...files, '.')
}
