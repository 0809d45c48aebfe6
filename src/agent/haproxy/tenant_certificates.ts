import { X509Certificate } from 'node:crypto'
import { join } from 'node:path'
import type { NameServer, ServedName } from '../certificates/name_server.ts'
import { pemFault } from '../certificates/pem_fault.ts'
import { type Files, writeAtomically, writeIfDifferent } from '../disk/files.ts'
import { createAuthorities } from './authorities.ts'
import type { Certificates } from './certificates.ts'
import { fingerprintOf, isServed, type LoadedCertificates } from './comparison/certificate_comparison.ts'
import type { Difference } from './comparison/difference.ts'
import { linesInForce } from './operator_list.ts'
import { converse } from './process/runtime.ts'
import { type ProxySettings, tenantFolder, tenantList } from './settings.ts'
import { digestOf, entryOf, fileOf, type Line, readList, writeSealed } from './tenant_list.ts'

/** HAProxy answered, and rejected the certificate. */
class Unusable extends Error {}

/**
 * Certificates of accounts in HAProxy. Each name has a line in a crt-list with the name as its filter, so the names
 * inside a certificate have no effect. Files and list are written after HAProxy has accepted a change: everything on
 * disk was accepted once, so HAProxy can start from it with everything else down.
 */
export function createTenantCertificates(
  settings: ProxySettings,
  files: Files,
  operators: Pick<Certificates, 'reserve' | 'lineDifferences'>,
) {
  const [folder, list] = [tenantFolder(settings), tenantList(settings)]
  const lines = new Map<string, Line>()
  const authorities = createAuthorities(settings, files)
  /** Kept across calls: if a call fails after HAProxy has accepted a name, the next one writes the list. */
  let isListed = true

  const { listed, namesThatAsk, authoritiesInUse } = readersOf(settings, lines)

  /**
   * Reads what an earlier agent has left, and gives HAProxy a list even if that one is damaged. Skips lines whose mutual
   * TLS settings differ from those of their edge now: a client that was asked for another certificate must not pass as
   * verified.
   */
  async function open(askedFor: (name: string) => string | undefined): Promise<void> {
    await files.makeFolder(folder, 0o700)
    for await (const [name, line] of readList(settings, files))
      if (!line.asks || line.asks.settings === askedFor(name)) lines.set(name, line)
    await authorities.open(authoritiesInUse())
    await writeIfDifferent(files, list, listed())
    await operators.reserve(namesThatAsk(), false)
    const wanted = new Set([...lines.values()].map(({ file }) => file))
    for (const name of await files.list(folder))
      if (!wanted.has(join(folder, name))) await files.remove(join(folder, name))
  }

  const put = (served: ServedName) => putLine({ settings, files, authorities, lines }, served)

  return {
    open,
    /** Lines that a running HAProxy lacks, or has but should not have. */
    async differences(): Promise<Difference[]> {
      const ofLines = await lineDifferences(settings, lines)
      return [...ofLines, ...(await authorities.differences([...authoritiesInUse()]))]
    },
    loaded: (): LoadedCertificates => new Map(lines.values().map(({ file, digest }) => [file, digest])),

    served: (): ReadonlyMap<string, Line> => lines,

    /** In force once it resolves. Throws if HAProxy does not answer; the same call can then be repeated. */
    async serve({ set, del }: Parameters<NameServer['serve']>[0]): ReturnType<NameServer['serve']> {
      const authoritiesBefore = authoritiesInUse()
      const { faults, unusable } = await takeIn(lines, set, put, () => {
        isListed = false
      })
      const gone = new Set([...del, ...unusable])
      // Names without mutual TLS fall back to the operator's certificates, so these must be in place before the lines
      // go.
      await operators.reserve(namesThatAsk().difference(gone), true)
      for (const name of gone) {
        const line = lines.get(name)
        if (!line) continue
        await dropFile(settings, files, line.file)
        lines.delete(name)
        isListed = false
      }
      if (!isListed) await writeAtomically(files, list, [listed()])
      isListed = true
      // After the list is written: a list that names a missing file would keep HAProxy from starting.
      for (const digest of authoritiesBefore.difference(authoritiesInUse())) await authorities.drop(digest)
      return faults
    },

    /**
     * Whether a running HAProxy has exactly these names. After a crash of the agent it may have one more or one fewer,
     * and is then reloaded.
     */
    async isInForce(): Promise<boolean> {
      const found = [...(await lineDifferences(settings, lines)), ...(await operators.lineDifferences())]
      return found.length === 0 && (await authorities.differences([...authoritiesInUse()])).length === 0
    },
  }
}
export type TenantCertificates = ReturnType<typeof createTenantCertificates>

const readersOf = (settings: ProxySettings, lines: ReadonlyMap<string, Line>) => ({
  listed: () =>
    Array.from(lines, ([name, line]) => `${entryOf(settings, name, line)} # ${line.certificate}\n`).join(''),
  namesThatAsk: (): Set<string> => new Set([...lines].flatMap(([name, { asks }]) => (asks ? [name] : []))),
  authoritiesInUse: (): Set<string> => new Set(lines.values().flatMap(({ asks }) => (asks ? [asks.settings] : []))),
})

/** `unusable`: names whose clients would be asked for outdated authorities. Their handshakes fail. */
async function takeIn(
  lines: Map<string, Line>,
  set: readonly ServedName[],
  put: (served: ServedName) => Promise<Line>,
  onChange: () => void,
): Promise<{ faults: { name: string; fault: string }[]; unusable: string[] }> {
  const faults: { name: string; fault: string }[] = []
  const unusable: string[] = []
  for (const each of set) {
    const before = lines.get(each.name)
    try {
      const line = await put(each)
      lines.set(each.name, line)
      if (before?.file !== line.file || before.certificate !== line.certificate) onChange()
    } catch (error) {
      if (!(error instanceof Unusable)) throw error
      faults.push({ name: each.name, fault: error.message })
      if (before?.asks?.settings !== each.asks?.settings) unusable.push(each.name)
    }
  }
  return { faults, unusable }
}

type PutParts = {
  settings: ProxySettings
  files: Files
  authorities: ReturnType<typeof createAuthorities>
  lines: ReadonlyMap<string, Line>
}
/** Resolves to the line that is now in force. */
async function putLine({ settings, files, authorities, lines }: PutParts, served: ServedName): Promise<Line> {
  const { certificate, except, pem, asks } = served
  const [file, digest] = [fileOf(settings, served), digestOf(pem)]
  const before = lines.get(served.name)
  // Skips parsing: at a start, nearly all are unchanged.
  if (before?.file === file && before.digest === digest) return { ...before, certificate }
  const isNew = before?.file !== file
  const fault = pemFault(pem) ?? (asks && isNew ? await authorities.put(asks) : undefined)
  if (fault !== undefined) throw new Unusable(fault)
  const line: Line = {
    ...{ file, certificate, except, digest, notAfter: new X509Certificate(pem).validToDate.getTime() },
    ...(asks && { asks: { mode: asks.mode, settings: asks.settings } }),
  }
  await loadFile(settings, file, pem, isNew ? entryOf(settings, served.name, line) : undefined)
  await writeSealed(files, line, pem)
  if (before && isNew) await dropFile(settings, files, before.file)
  return line
}

async function lineDifferences(settings: ProxySettings, lines: ReadonlyMap<string, Line>): Promise<Difference[]> {
  const missing = new Map([...lines].map(([name, line]) => [entryOf(settings, name, line), name]))
  const unexpected = (await linesInForce(settings, tenantList(settings))).filter((line) => !missing.delete(line))
  const difference = (name: string, kind: Difference['kind']) => ({ what: 'certificate', name, kind }) as const
  return [
    ...missing.values().map((name) => difference(name, 'missing')),
    ...unexpected.map((line) => difference(line.replace(/ \[.*?\]/, '').split(' ')[1] ?? line, 'unexpected')),
  ]
}

async function say(
  { runtimeSocket }: ProxySettings,
  commands: readonly (readonly [string, Pick<RegExp, 'test'>])[],
): Promise<void> {
  const expected = new Map(commands)
  // Only the first line: the others contain the private key.
  for await (const { command, answer } of converse(runtimeSocket, expected.keys()))
    if (!expected.get(command)?.test(answer))
      throw new Unusable(`HAProxy answered ${answer} to ${command.split('\n')[0]}`)
}

/** Switches without a gap: HAProxy uses the new certificate from the commit on. A new file gets a line. */
async function loadFile(
  settings: ProxySettings,
  file: string,
  pem: string,
  newLine: string | undefined,
): Promise<void> {
  try {
    await say(settings, [
      ...(newLine ? [[`new ssl cert ${file}`, /^New empty|already exists/] as const] : []),
      [`set ssl cert ${file} <<\n${withoutEmptyLines(pem)}`, /^Transaction (created|updated)/],
      [`commit ssl cert ${file}`, /Success!$/],
      ...(newLine ? [[`add ssl crt-list ${tenantList(settings)} <<\n${newLine}\n`, /Success!$/] as const] : []),
      [`show ssl cert ${file}`, { test: (answer) => isServed(answer, fingerprintOf(pem)) }],
    ])
  } catch (error) {
    if (error instanceof Unusable) {
      await say(settings, [[`abort ssl cert ${file}`, /./]])
      if (newLine) await say(settings, [[`del ssl cert ${file}`, /./]])
    }
    throw error
  }
}

async function dropFile(settings: ProxySettings, files: Files, file: string): Promise<void> {
  await say(settings, [
    [`del ssl crt-list ${tenantList(settings)} ${file}`, /deleted|not found|Can't find/i],
    [`del ssl cert ${file}`, /deleted|doesn't exist|not found/i],
  ])
  await files.remove(file)
}

/** An empty line ends a payload on the runtime socket. */
const withoutEmptyLines = (pem: string): string => pem.replaceAll(/\r?\n(\r?\n)+/g, '\n').trimStart()
