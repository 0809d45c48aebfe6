import type { Claims } from '../maps/claims.ts'
import { accountOf, backendOf, type Entry } from '../maps/entries.ts'
import type { ProxySettings } from '../settings.ts'
import { type Definition, definitionOf, nativeName } from './definition.ts'
import type { Mode } from './sections.ts'
import { type Group, parseGroup, parseUpstream, type Upstream } from './upstream.ts'

export const defaultBudgets = {
  perNode: { servers: 20_000, checksPerSecond: 4_000 },
  perAccount: { servers: 2_000, checksPerSecond: 500 },
}

type Used = Record<Mode, number> & { account: string }
type Key = `${Mode} ${string}`
export type NativeChange = { readonly before: Definition | undefined; readonly after: Definition | undefined }

const modes: readonly Mode[] = ['http', 'tcp']
const keyOf = (mode: Mode, id: string): Key => `${mode} ${id}`

/**
 * Computes the native backends. A backend is native if it is a group, or has a check or several addresses, and only
 * while an edge or route uses it. Pure: it reads entries and returns differences, and does not talk to HAProxy.
 */
export class NativeModel {
  private readonly groups = new Map<string, Group>()
  private readonly groupsOf = new Map<string, Set<string>>()
  private readonly used = new Map<string, Used>()
  private readonly wanted = new Map<Key, Definition>()
  private readonly refused = new Map<Key, string>()
  private readonly outdated = new Set<string>()
  private readonly usage = new Map<string, { servers: number; checksPerSecond: number }>()

  private readonly settings: ProxySettings
  private readonly holder: Claims['holder']

  constructor(settings: ProxySettings, holder: Claims['holder']) {
    this.settings = settings
    this.holder = holder
  }

  /** Call this for each added or removed claim. */
  note(entry: Entry, isThere: boolean): void {
    const { map, key, value } = entry
    if (map === 'backend' || map === 'upstream') this.outdate(key)
    if (map === 'group') this.noteGroup(key, isThere ? parseGroup(value) : undefined)
    if (map === 'route' || map === 'tcp') this.noteUser(entry, map === 'tcp' ? 'tcp' : 'http', isThere)
  }

  private noteUser(entry: Entry, mode: Mode, isThere: boolean): void {
    const id = backendOf(entry)
    const before = this.used.get(id) ?? { http: 0, tcp: 0, account: accountOf(entry) }
    const now = { ...before, [mode]: before[mode] + (isThere ? 1 : -1) }
    if (now.http + now.tcp > 0) this.used.set(id, now)
    else this.used.delete(id)
    if (now[mode] + before[mode] === 1) this.outdated.add(id)
  }

  /** Computes the differences. If the budget does not suffice, older backends come first. */
  takeChanges(): NativeChange[] {
    const changes: NativeChange[] = []
    const ids = [...this.outdated].sort()
    this.outdated.clear()
    for (const id of ids) for (const mode of modes) changes.push(...this.update(id, mode))
    // Removed backends may have freed budget.
    if (changes.some(({ before }) => before))
      for (const key of [...this.refused.keys()].sort()) {
        const [mode, id] = key.split(' ') as [Mode, string]
        changes.push(...this.update(id, mode))
      }
    return changes
  }

  /** HAProxy rejected the definition. There is none until something about it changes. */
  refuse({ id, mode }: Definition, reason: string): void {
    this.remove(keyOf(mode, id))
    this.refused.set(keyOf(mode, id), reason)
  }

  /** Why a used backend has no native backend, as the end of a sentence that begins with the record. */
  fault(id: string): string | undefined {
    return modes.map((mode) => this.refused.get(keyOf(mode, id))).find((reason) => reason !== undefined)
  }

  /** The current definition with this name. */
  named(name: string): Definition | undefined {
    const [, id = '', mode] = nativeName.exec(name) ?? []
    const definition = this.wanted.get(keyOf(mode === 'tcp' ? 'tcp' : 'http', id))
    return definition?.name === name ? definition : undefined
  }

  all = (): Iterable<Definition> => this.wanted.values()
  state = () => ({ nativeBackends: this.wanted.size, nativeServers: this.usage.get(node)?.servers ?? 0 })

  private noteGroup(id: string, group: Group | undefined): void {
    for (const [member] of this.groups.get(id)?.members ?? []) this.groupsOf.get(member)?.delete(id)
    if (group) this.groups.set(id, group)
    else this.groups.delete(id)
    for (const [member] of group?.members ?? [])
      this.groupsOf.set(member, (this.groupsOf.get(member) ?? new Set()).add(id))
    this.outdated.add(id)
  }

  private outdate(id: string): void {
    this.outdated.add(id)
    for (const group of this.groupsOf.get(id) ?? []) this.outdated.add(group)
  }

  private update(id: string, mode: Mode): NativeChange[] {
    const key = keyOf(mode, id)
    const before = this.wanted.get(key)
    const after = this.define(id, mode)
    this.refused.delete(key)
    if (before?.name === after?.name) return []
    this.remove(key)
    const reason = after && this.overBudget(after)
    if (reason) this.refused.set(key, reason)
    else if (after) this.add(key, after)
    return before || !reason ? [{ before, after: reason ? undefined : after }] : []
  }

  private define(id: string, mode: Mode): Definition | undefined {
    const used = this.used.get(id)
    if (!used || used[mode] === 0) return undefined
    const group = this.groups.get(id)
    if (group && group.account !== used.account) return undefined
    // A static backend counts as a group of one. Without an `upstream` entry, HAProxy dials it without a native backend.
    const members = group ?? this.alone(id)
    if (!members) return undefined
    return definitionOf(this.settings, { id, mode, account: used.account }, members, this.upstreamOf)
  }

  private readonly alone = (id: string): Pick<Group, 'kind' | 'members'> | undefined =>
    this.holder('upstream', id) === undefined ? undefined : { kind: 'failover', members: [[id, 1]] }

  private readonly upstreamOf = (id: string): Upstream | undefined => {
    const value = this.holder('upstream', id) ?? this.holder('backend', id)
    return value === undefined ? undefined : parseUpstream(value)
  }

  private overBudget(definition: Definition): string | undefined {
    const budgets = { ...defaultBudgets, ...this.settings.nativeBudgets }
    for (const [owner, budget, whose] of [
      [definition.account, budgets.perAccount, 'of one account'],
      [node, budgets.perNode, 'of all accounts'],
    ] as const) {
      const { servers, checksPerSecond } = this.usage.get(owner) ?? { servers: 0, checksPerSecond: 0 }
      if (servers + definition.servers.length > budget.servers)
        return `is not served by this node: more than ${budget.servers} servers ${whose} would have to be checked`
      if (checksPerSecond + definition.checksPerSecond > budget.checksPerSecond)
        return `is not served by this node: more than ${budget.checksPerSecond} health checks per second ${whose} could be necessary`
    }
    return undefined
  }

  private add(key: Key, definition: Definition): void {
    this.wanted.set(key, definition)
    this.count(definition, 1)
  }
  private remove(key: Key): void {
    const definition = this.wanted.get(key)
    if (definition && this.wanted.delete(key)) this.count(definition, -1)
  }
  private count({ account, servers, checksPerSecond }: Definition, sign: 1 | -1): void {
    for (const owner of [account, node]) {
      const before = this.usage.get(owner) ?? { servers: 0, checksPerSecond: 0 }
      const now = {
        servers: before.servers + sign * servers.length,
        checksPerSecond: before.checksPerSecond + sign * checksPerSecond,
      }
      if (now.servers === 0) this.usage.delete(owner)
      else this.usage.set(owner, now)
    }
  }
}

/** The key of the node's total budget; no account id is empty. */
const node = ''

/** Map entries by which requests and connections find the native backend. */
export const nativeEntries = (changes: readonly NativeChange[]): { set: Entry[]; del: Entry[] } => {
  const entryOf = ({ id, mode, name }: Definition): Entry => ({ map: `${mode}_native`, key: id, value: name })
  return {
    set: changes.flatMap(({ after }) => (after ? [entryOf(after)] : [])),
    del: changes.flatMap(({ before }) => (before ? [entryOf(before)] : [])),
  }
}
