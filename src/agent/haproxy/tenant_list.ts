import { hash } from 'node:crypto'
import { join } from 'node:path'
import type { MutualTlsMode } from '../../kernel/edge/mutual_tls.ts'
import type { ServedName } from '../certificates/name_server.ts'
import type { Files } from '../disk/files.ts'
import { digestOfAuthorities } from './maps/name_entries.ts'
import { authorityFolder, type ProxySettings, tenantFolder, tenantList } from './settings.ts'

/** One line of the list: each name has its own file, which serves that name only. */
export type Line = {
  readonly file: string
  readonly certificate: string
  readonly except: readonly string[]
  readonly digest: string
  readonly notAfter: number
  /** Mutual TLS with the authorities in the file of this digest. */
  readonly asks?: { readonly mode: MutualTlsMode; readonly settings: string } | undefined
}

export const digestOf = (text: string): string => hash('sha256', text, 'hex')

/** Other exceptions or mutual TLS settings give another file, so that one line can replace the other. */
export const fileOf = (
  settings: ProxySettings,
  { name, except, asks }: Pick<ServedName, 'name' | 'except'> & { asks?: { settings: string } | undefined },
): string => {
  const all = [name, ...except, ...(asks ? [`asks ${asks.settings}`] : [])]
  return join(tenantFolder(settings), `${digestOf(all.join('\n')).slice(0, 40)}.pem`)
}

export const authorityFile = (settings: ProxySettings, digest: string): string =>
  join(authorityFolder(settings), `${digest}.pem`)

/** Options are in the order in which HAProxy shows them. */
export const entryOf = (settings: ProxySettings, name: string, { file, except, asks }: Line): string => {
  const options = asks ? [`[verify ${asks.mode} ca-file ${authorityFile(settings, asks.settings)}]`] : []
  return [file, ...options, name, ...except.map((each) => `!${each}`)].join(' ')
}

/**
 * The first line has the hash of the rest. A file that a power cut has truncated is detected without parsing it, and
 * served again from the record, so no write has to wait for the disk.
 */
export async function writeSealed(files: Files, { file, digest, notAfter }: Line, pem: string): Promise<void> {
  const written = await files.open(`${file}.new`, 'empty')
  try {
    await written.write(`# ${digest} ${notAfter}\n${pem}`)
  } finally {
    await written.close()
  }
  await files.rename(`${file}.new`, file)
}

const textOf = async (files: Files, file: string): Promise<string> =>
  (await files.read(file).catch(() => undefined))?.toString('latin1') ?? ''

/** Undefined if the file is not exactly what HAProxy accepted. */
async function readSealed(files: Files, file: string): Promise<{ digest: string; notAfter: number } | undefined> {
  const text = await textOf(files, file)
  const [, digest = '', notAfter] = /^# ([0-9a-f]{64}) (\d+)\n/.exec(text) ?? []
  if (digestOf(text.slice(text.indexOf('\n') + 1)) !== digest) return undefined
  return { digest, notAfter: Number(notAfter) }
}

/** Parses `file [options] name !exception … # certificate`, and skips lines whose files are unusable. */
export async function* readList(settings: ProxySettings, files: Files): AsyncGenerator<[name: string, line: Line]> {
  for (const listed of (await textOf(files, tenantList(settings))).split('\n')) {
    const [all = '', options] = / \[(.+?)\] /.exec(listed) ?? []
    const asks = options === undefined ? undefined : await readAsked(settings, files, options)
    if (options !== undefined && !asks) continue
    const [file = '', name = '', ...rest] = (all ? listed.replace(all, ' ') : listed).split(' ')
    const comment = rest.indexOf('#')
    if (!name || comment < 0) continue
    const except = rest.filter((word) => word.startsWith('!')).map((each) => each.slice(1))
    const sealed = file === fileOf(settings, { name, except, asks }) && (await readSealed(files, file))
    if (sealed) yield [name, { file, certificate: rest[comment + 1] ?? '', except, ...sealed, ...(asks && { asks }) }]
  }
}

/** Requires a complete file of authorities: HAProxy would not start without it. */
async function readAsked(settings: ProxySettings, files: Files, options: string): Promise<Line['asks']> {
  const [, mode, file = ''] = /^verify (required|optional) ca-file (\S+)$/.exec(options) ?? []
  if (mode !== 'required' && mode !== 'optional') return undefined
  const digest = digestOfAuthorities(mode, await textOf(files, file))
  return file === authorityFile(settings, digest) ? { mode, settings: digest } : undefined
}
