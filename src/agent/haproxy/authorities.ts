import { X509Certificate } from 'node:crypto'
import { join } from 'node:path'
import type { AskedOfClients } from '../certificates/name_server.ts'
import { type Files, writeAtomically } from '../disk/files.ts'
import type { Difference } from './comparison/difference.ts'
import { ask, converse } from './process/runtime.ts'
import { authorityFolder, type ProxySettings } from './settings.ts'
import { authorityFile } from './tenant_list.ts'

/** HAProxy takes a tenth of a millisecond for each. */
const perComparison = 200

/**
 * Client authorities in HAProxy: an immutable file for each list, named by its digest, so that the crt-list line of a
 * name switches from one list to another at once. Each file is written before HAProxy loads it, because HAProxy could
 * not start without it.
 */
export function createAuthorities(settings: ProxySettings, files: Files) {
  const folder = authorityFolder(settings)
  let turn = 0

  return {
    /** Removes all other files. */
    async open(digests: ReadonlySet<string>): Promise<void> {
      await files.makeFolder(folder, 0o700)
      const wanted = new Set([...digests].map((digest) => authorityFile(settings, digest)))
      for (const name of await files.list(folder))
        if (!wanted.has(join(folder, name))) await files.remove(join(folder, name))
    },

    /** Resolves to the reason if HAProxy does not accept the authorities. */
    async put({ settings: digest, authorities }: AskedOfClients): Promise<string | undefined> {
      const file = authorityFile(settings, digest)
      const expected = fingerprintsOf(authorities)
      if (!expected) return 'its client authorities cannot be read'
      const tooOld = await versionFault(settings)
      if (tooOld) return tooOld
      await writeAtomically(files, file, [authorities])
      if (await isLoaded(settings, file, expected)) return undefined
      const commands: [string, RegExp][] = [
        [`new ssl ca-file ${file}`, /^New CA file|already exists/],
        [`set ssl ca-file ${file} <<\n${authorities}`, /^transaction (created|updated)/i],
        [`commit ssl ca-file ${file}`, /Success!$/],
      ]
      for (const [command, success] of commands) {
        const answer = await say(settings, command)
        if (success.test(answer)) continue
        await say(settings, `abort ssl ca-file ${file}`)
        return `HAProxy answered ${answer.slice(0, 200)} to ${command.split('\n')[0]}`
      }
      return (await isLoaded(settings, file, expected))
        ? undefined
        : 'HAProxy has other client authorities than it was sent'
    },

    /** Call this when no line uses the authorities any more. */
    async drop(digest: string): Promise<void> {
      const file = authorityFile(settings, digest)
      await say(settings, `del ssl ca-file ${file}`)
      await files.remove(file)
    },

    /** Checks a limited number per call, in rotation. */
    async differences(digests: readonly string[]): Promise<Difference[]> {
      if (digests.length === 0) return []
      const found: Difference[] = []
      const listed = new Set(
        (await ask(settings.runtimeSocket, 'show ssl ca-file')).split('\n').map((line) => line.split(' - ')[0]),
      )
      const from = turn % digests.length
      turn = digests.length > perComparison ? from + perComparison : 0
      for (const digest of [...digests.slice(from), ...digests.slice(0, from)].slice(0, perComparison)) {
        const file = authorityFile(settings, digest)
        const kind = !listed.has(file)
          ? 'missing'
          : (await isLoaded(settings, file, fingerprintsOf(await read(files, file)) ?? []))
            ? undefined
            : 'changed'
        if (kind) found.push({ what: 'client authorities', name: file, kind })
      }
      return found
    },
  }
}

/** The first version known to bind a TLS session to the authorities that its client was asked for. */
const oldest = [3, 4, 7]

async function versionFault({ runtimeSocket }: ProxySettings): Promise<string | undefined> {
  const [, version = ''] = /^Version: (\S+)$/m.exec(await ask(runtimeSocket, 'show info')) ?? []
  return isOlder(version, oldest)
    ? `HAProxy ${version} may resume TLS sessions without asking for a certificate. Install ${oldest.join('.')} or newer`
    : undefined
}

/** Treats an unreadable version as older. */
export function isOlder(version: string, least: readonly number[]): boolean {
  const parts = (/^\d+\.\d+(\.\d+)?/.exec(version)?.[0] ?? '0').split('.').map(Number)
  const at = least.findIndex((part, index) => (parts[index] ?? 0) !== part)
  return at >= 0 && (parts[at] ?? 0) < (least[at] ?? 0)
}

const read = async (files: Files, file: string): Promise<string> => (await files.read(file))?.toString('latin1') ?? ''

/** Fingerprints in HAProxy's format. Undefined if a certificate cannot be read. */
function fingerprintsOf(pem: string): string[] | undefined {
  try {
    const blocks = pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? []
    return blocks.map((block) => new X509Certificate(block).fingerprint.replaceAll(':', '')).sort()
  } catch {
    return undefined
  }
}

async function isLoaded(settings: ProxySettings, file: string, expected: readonly string[]): Promise<boolean> {
  const answer = await say(settings, `show ssl ca-file ${file}`)
  const found = [...answer.matchAll(/^SHA1 FingerPrint: ([0-9A-F]+)$/gm)].map(([, print = '']) => print).sort()
  return expected.length > 0 && found.join() === expected.join()
}

async function say({ runtimeSocket }: ProxySettings, command: string): Promise<string> {
  for await (const { answer } of converse(runtimeSocket, [command])) return answer
  return ''
}
