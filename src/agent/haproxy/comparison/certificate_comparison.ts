import { X509Certificate } from 'node:crypto'
import type { Files } from '../../disk/files.ts'
import { ask, converse } from '../process/runtime.ts'
import { loadedCertificateFolder, type ProxySettings, tenantFolder } from '../settings.ts'
import type { Difference } from './difference.ts'

/** Content digest of each file. */
export type LoadedCertificates = ReadonlyMap<string, string>

/** HAProxy takes some tenths of a millisecond for each. */
const perComparison = 200

/** Matches `SHA1 FingerPrint: 5F…` and `Status: Used`, which HAProxy shows for a certificate that clients can get. */
export const isServed = (answer: string, fingerprint: string): boolean =>
  answer.includes(`SHA1 FingerPrint: ${fingerprint}`) && /^Status: Used$/m.test(answer)

export const fingerprintOf = (pem: string | Buffer): string => new X509Certificate(pem).fingerprint.replaceAll(':', '')

/**
 * Compares the certificates in HAProxy with the files. Each call lists all of them and inspects a limited number, in
 * rotation.
 */
export function createCertificateComparison(settings: ProxySettings, files: Files) {
  const known = new Map<string, { digest: string; fingerprint: string }>()
  const folders = [tenantFolder(settings), loadedCertificateFolder(settings)].map((folder) => `${folder}/`)
  let lookedAt = new Set<string>()

  async function fingerprint(file: string, digest: string): Promise<string> {
    const before = known.get(file)
    if (before?.digest === digest) return before.fingerprint
    const pem = await files.read(file)
    if (!pem) throw new Error(`${file} cannot be read, so it cannot be compared with what HAProxy has`)
    const now = { digest, fingerprint: fingerprintOf(pem) }
    known.set(file, now)
    return now.fingerprint
  }

  return async function certificateDifferences(wanted: LoadedCertificates): Promise<Difference[]> {
    const found: Difference[] = []
    const note = (name: string, kind: Difference['kind']) => found.push({ what: 'certificate', name, kind })
    for (const file of known.keys()) if (!wanted.has(file)) known.delete(file)
    const listed = new Set(
      (await ask(settings.runtimeSocket, 'show ssl cert'))
        .split('\n')
        .filter((line) => folders.some((folder) => line.startsWith(folder))),
    )
    for (const file of listed.difference(wanted)) note(file, 'unexpected')
    for (const file of new Set(wanted.keys()).difference(listed)) note(file, 'missing')
    const left = [...wanted.keys()].filter((file) => listed.has(file) && !lookedAt.has(file))
    const now = left.slice(0, perComparison)
    const commands = now.map((file) => `show ssl cert ${file}`)
    for await (const { command, answer } of converse(settings.runtimeSocket, commands)) {
      const file = command.slice('show ssl cert '.length)
      if (!isServed(answer, await fingerprint(file, wanted.get(file) ?? ''))) note(file, 'changed')
    }
    // Certificates that differ are inspected again in the next call.
    if (found.length === 0) lookedAt = left.length > perComparison ? new Set([...lookedAt, ...now]) : new Set()
    return found
  }
}
