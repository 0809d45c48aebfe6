import { hash, X509Certificate } from 'node:crypto'
import { join } from 'node:path'
import type { NameServer, ServedName } from '../certificates/name_server.ts'
import { pemFault } from '../certificates/pem_fault.ts'
import { type Files, writeAtomically, writeIfDifferent } from '../disk/files.ts'
import { fingerprintOf, isServed, type LoadedCertificates } from './comparison/certificate_comparison.ts'
import type { Difference } from './comparison/difference.ts'
import { converse } from './process/runtime.ts'
import { type ProxySettings, tenantFolder, tenantList } from './settings.ts'

/** One line of the list: a file of its own for each name, which is served for that name and for nothing else. */
type Line = {
  readonly file: string
  readonly certificate: string
  readonly except: readonly string[]
  readonly digest: string
  readonly notAfter: number
}

/** HAProxy accepted the connection and said no: this certificate cannot be used. */
class Unusable extends Error {}

/**
 * Certificates of accounts in HAProxy. Each name has a line in a crt-list with the name as its filter, so that the names
 * inside a certificate decide nothing. Files and list are written after HAProxy has taken a change: what is on disk has
 * always been accepted, and HAProxy starts from it with everything else down.
 */
export function createTenantCertificates(settings: ProxySettings, files: Files) {
  const [folder, list] = [tenantFolder(settings), tenantList(settings)]
  const lines = new Map<string, Line>()
  /** Kept across calls: one that fails after HAProxy has taken a name leaves the list to the next. */
  let isListed = true

  const listed = () => Array.from(lines, ([name, line]) => `${entry(name, line)} # ${line.certificate}\n`).join('')

  /** Reads what an earlier agent has left, and makes sure that HAProxy finds a list even if that one is damaged. */
  async function open(): Promise<void> {
    await files.makeFolder(folder, 0o700)
    for await (const [name, line] of readList(settings, files)) lines.set(name, line)
    await writeIfDifferent(files, list, listed())
    const wanted = new Set([...lines.values()].map(({ file }) => file))
    for (const name of await files.list(folder))
      if (!wanted.has(join(folder, name))) await files.remove(join(folder, name))
  }

  /** Resolves to the line that is in force now. */
  async function put(served: ServedName): Promise<Line> {
    const { certificate, except, pem } = served
    const [file, digest] = [fileOf(settings, served), digestOf(pem)]
    const before = lines.get(served.name)
    // Not even parsed: at a start these are nearly all.
    if (before?.file === file && before.digest === digest) return { ...before, certificate }
    const fault = pemFault(pem)
    if (fault !== undefined) throw new Unusable(fault)
    const line = { file, certificate, except, digest, notAfter: new X509Certificate(pem).validToDate.getTime() }
    const isNew = before?.file !== file
    await loadFile(settings, file, pem, isNew ? entry(served.name, line) : undefined)
    await writeSealed(files, line, pem)
    if (before && isNew) await dropFile(settings, files, before.file)
    return line
  }

  return {
    open,
    /** Which lines of the list a running HAProxy lacks, or has although it should not. */
    differences: () => lineDifferences(settings, lines),
    /** What HAProxy has. */
    loaded: (): LoadedCertificates => new Map(lines.values().map(({ file, digest }) => [file, digest])),

    served: (): ReadonlyMap<string, Line> => lines,

    /** In force when it resolves. Throws when HAProxy cannot be asked; then the same can be asked again. */
    async serve({ set, del }: Parameters<NameServer['serve']>[0]): ReturnType<NameServer['serve']> {
      const faults: { name: string; fault: string }[] = []
      for (const each of set) {
        try {
          const before = lines.get(each.name)
          const line = await put(each)
          lines.set(each.name, line)
          if (before?.file !== line.file || before.certificate !== line.certificate) isListed = false
        } catch (error) {
          if (!(error instanceof Unusable)) throw error
          faults.push({ name: each.name, fault: error.message })
        }
      }
      for (const name of del) {
        const line = lines.get(name)
        if (!line) continue
        await dropFile(settings, files, line.file)
        lines.delete(name)
        isListed = false
      }
      if (!isListed) await writeAtomically(files, list, [listed()])
      isListed = true
      return faults
    },

    /**
     * Whether a running HAProxy has exactly these names. After a crash of the agent it may have one more or one less, and
     * is then reloaded.
     */
    async isInForce(): Promise<boolean> {
      return (await lineDifferences(settings, lines)).length === 0
    },
  }
}
export type TenantCertificates = ReturnType<typeof createTenantCertificates>

async function lineDifferences(settings: ProxySettings, lines: ReadonlyMap<string, Line>): Promise<Difference[]> {
  const missing = new Map([...lines].map(([name, line]) => [entry(name, line), name]))
  const unexpected = (await linesInForce(settings)).filter((line) => !missing.delete(line))
  const difference = (name: string, kind: Difference['kind']) => ({ what: 'certificate', name, kind }) as const
  return [
    ...missing.values().map((name) => difference(name, 'missing')),
    ...unexpected.map((line) => difference(line.split(' ')[1] ?? line, 'unexpected')),
  ]
}

async function linesInForce(settings: ProxySettings): Promise<string[]> {
  const found: string[] = []
  // From the file, HAProxy takes our comment for further names.
  for await (const { answer } of converse(settings.runtimeSocket, [`show ssl crt-list ${tenantList(settings)}`]))
    for (const line of answer.split('\n')) if (line.startsWith('/')) found.push(line.replace(/ # .*$/, '').trim())
  return found
}

/** Other exceptions are another file, so that one line can take over from the other. */
const fileOf = (settings: ProxySettings, { name, except }: Pick<ServedName, 'name' | 'except'>): string =>
  join(tenantFolder(settings), `${digestOf([name, ...except].join('\n')).slice(0, 40)}.pem`)
const digestOf = (text: string): string => hash('sha256', text, 'hex')

/**
 * The first line has the hash of the others: what is half a file after a power cut is then found without a parser, and
 * served again from the record. So nothing has to wait for the disk.
 */
async function writeSealed(files: Files, { file, digest, notAfter }: Line, pem: string): Promise<void> {
  const written = await files.open(`${file}.new`, 'empty')
  try {
    await written.write(`# ${digest} ${notAfter}\n${pem}`)
  } finally {
    await written.close()
  }
  await files.rename(`${file}.new`, file)
}

/** Undefined for what HAProxy has not accepted like this. */
async function readSealed(files: Files, file: string): Promise<{ digest: string; notAfter: number } | undefined> {
  const text = (await files.read(file).catch(() => undefined))?.toString('latin1') ?? ''
  const [, digest = '', notAfter] = /^# ([0-9a-f]{64}) (\d+)\n/.exec(text) ?? []
  if (digestOf(text.slice(text.indexOf('\n') + 1)) !== digest) return undefined
  return { digest, notAfter: Number(notAfter) }
}

const entry = (name: string, { file, except }: Line): string =>
  [file, name, ...except.map((each) => `!${each}`)].join(' ')

/** `file name !exception … # certificate`, as far as the files are usable. */
async function* readList(settings: ProxySettings, files: Files): AsyncGenerator<[name: string, line: Line]> {
  const text = (await files.read(tenantList(settings)).catch(() => undefined))?.toString('latin1') ?? ''
  for (const listed of text.split('\n')) {
    const [file = '', name = '', ...rest] = listed.split(' ')
    const comment = rest.indexOf('#')
    if (!name || comment < 0) continue
    const except = rest.filter((word) => word.startsWith('!')).map((each) => each.slice(1))
    const sealed = file === fileOf(settings, { name, except }) && (await readSealed(files, file))
    if (sealed) yield [name, { file, certificate: rest[comment + 1] ?? '', except, ...sealed }]
  }
}

/** Each with what HAProxy answers when it has done it. */
async function say(
  { runtimeSocket }: ProxySettings,
  commands: readonly (readonly [string, Pick<RegExp, 'test'>])[],
): Promise<void> {
  const expected = new Map(commands)
  // The further lines of a command are the private key.
  for await (const { command, answer } of converse(runtimeSocket, expected.keys()))
    if (!expected.get(command)?.test(answer))
      throw new Unusable(`HAProxy answered ${answer} to ${command.split('\n')[0]}`)
}

/** Without a gap: HAProxy switches to the new certificate with the commit. A new file gets a line. */
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

/** One ends a payload on the runtime socket. */
const withoutEmptyLines = (pem: string): string => pem.replaceAll(/\r?\n(\r?\n)+/g, '\n').trimStart()
