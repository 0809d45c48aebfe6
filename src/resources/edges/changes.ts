import type { Db } from '../../db/pool.ts'
import type { RecordKey } from '../../distribution/records.ts'
import type { InstallationSettings } from '../../http/route.ts'
import type { Caller } from '../../identity/caller.ts'
import { canonicalHostport, parseHostport } from '../../kernel/edge/hostport.ts'
import type { RateLimit } from '../../kernel/edge/rate_limit.ts'
import { invalidField } from '../../kernel/errors.ts'
import { toId, type Uuid } from '../../kernel/ids.ts'
import { replaceHostports } from './hostports.ts'
import type { EdgeKind, Module } from './module.ts'
import { type ModuleName, modulesOn } from './modules.ts'
import { isSharedDomain } from './public_suffix.ts'
import { type EdgeRow, noteCellLimit, putModule, removeModule } from './store.ts'

type Sent = Record<string, unknown>

/** Sent with every new edge: nodes refuse all traffic of an account whose restrictions they do not know. */
export const restrictionsKey = (accountId: Uuid): RecordKey => `restrictions.${toId('ac', accountId)}`

/** Sent with every edge or route that has a cell-wide limit: nodes that do not know their number let no one through. */
export const cellNodesKeys = (
  { modules }: Pick<EdgeRow, 'modules'>,
  { accountId }: Pick<Caller, 'accountId'>,
): RecordKey[] => (isOfCell(modules.rate_limit?.settings) ? [`cell_nodes.${toId('ac', accountId)}`] : [])
const isOfCell = (settings: object | undefined): boolean =>
  (settings as Partial<RateLimit> | undefined)?.scope === 'cell'

/** Sets a module and locks the resources that it refers to until the transaction ends. */
export async function setModule(
  tx: Db,
  caller: Caller,
  { kind, id }: { kind: EdgeKind; id: Uuid },
  [name, module]: [ModuleName, Module],
  body: object,
  prefix = '',
): Promise<void> {
  const stored = module.toStored(body)
  await module.hold?.(tx, caller, stored, prefix, kind)
  await putModule(tx, caller, id, name, stored)
  if (name === 'rate_limit' && isOfCell(stored.settings)) await noteCellLimit(tx, caller)
}

/** Modules inside a create or PATCH: an object sets one, null removes it, and an omitted one stays. */
export async function setInlineModules(
  tx: Db,
  caller: Caller,
  kind: EdgeKind,
  edgeId: Uuid,
  sent: Sent,
): Promise<void> {
  for (const [name, module] of modulesOn(kind)) {
    const body = sent[name]
    if (body === null) await removeModule(tx, caller, edgeId, name)
    else if (typeof body === 'object')
      await setModule(tx, caller, { kind, id: edgeId }, [name, module], body, `${name}.`)
  }
}

/** Checks of modules in a body beyond the schema. */
export const checkInlineModules =
  (kind: EdgeKind) =>
  (sent: Sent, _settings: InstallationSettings, isVendorClient: boolean): void => {
    for (const [name, module] of modulesOn(kind)) {
      const body = sent[name]
      if (typeof body === 'object' && body !== null) module.check(body, `${name}.`, isVendorClient)
    }
  }

/** Compares canonical spellings. */
export function checkHostports({ hostports = [] }: { hostports?: string[] }): void {
  const canonical = hostports.map(canonicalHostport)
  const twice = canonical.findIndex((hostport, index) => canonical.indexOf(hostport) !== index)
  if (twice >= 0) throw invalidField(`hostports[${twice}]`, `repeats an earlier entry (${canonical[twice]})`)
}

/** Names under co.uk belong to many owners, so no account may claim a wildcard there. */
export function checkWildcards({ wildcardSuffixes }: InstallationSettings, hostports: readonly string[] = []): void {
  for (const [index, text] of hostports.entries()) {
    const [name = ''] = canonicalHostport(text).split(':')
    const domain = name.slice(2)
    if (!name.startsWith('*.') || wildcardSuffixes.includes(domain) || !isSharedDomain(domain)) continue
    throw invalidField(
      `hostports[${index}]`,
      `must not be a wildcard directly under the public suffix ${domain}. Use a wildcard under your own domain, such as *.your-domain.${domain}`,
    )
  }
}

export async function setHostports(
  tx: Db,
  caller: Caller,
  edgeId: Uuid,
  hostports: readonly string[] | undefined,
): Promise<void> {
  if (hostports) await replaceHostports(tx, caller, edgeId, hostports.map(canonicalHostport))
}

/** The operator reserves a port range for TCP edges; all other ports of the machine are off limits. */
export function checkTcpPorts({ tcpPorts }: InstallationSettings, hostports: readonly string[] = []): void {
  for (const [index, text] of hostports.entries()) {
    const parsed = parseHostport(text)
    if (typeof parsed === 'string') throw invalidField(`hostports[${index}]`, parsed)
    if (parsed.port < tcpPorts.first || parsed.port > tcpPorts.last) {
      throw invalidField(`hostports[${index}]`, `must use a port from ${tcpPorts.first} to ${tcpPorts.last}`)
    }
  }
}
