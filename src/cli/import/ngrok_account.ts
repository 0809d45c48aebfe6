import { domainFault } from '../../kernel/edge/domains.ts'
import { Failure } from '../exits.ts'
import { toThing, withNames } from '../state/account.ts'
import { normalize, type Rule, ruleSchema, type Thing } from '../state/kinds.ts'
import { type Backends, importBackends, type Row } from './backends.ts'
import { cidrOf } from './cidr.ts'
import { importHttpsEdge, importTcpEdge, type Known } from './edges.ts'
import type { ListPath, Lists } from './ngrok_api.ts'
import { annotationsOf, createNotes, isVendorsName, type Notes, noteOthers, referredId, titleOf } from './notes.ts'

export type Imported = { readonly things: readonly Thing[]; readonly notes: readonly string[] }

/** Lists that are not imported, with advice. */
const leftOut: Partial<Record<ListPath, { called: string; why: string }>> = {
  '/edges/tls': { called: 'TLS edge', why: 'TLS edges do not exist here. Use a TCP edge, or an HTTPS edge' },
  '/endpoints': {
    called: 'endpoint',
    why: 'endpoints do not exist here. Describe it as an edge if it is a cloud endpoint',
  },
  '/reserved_addrs': {
    called: 'reserved address',
    why: 'it belongs to the vendor. TCP edges have ports of your nodes',
  },
  '/tls_certificates': {
    called: 'TLS certificate',
    why: 'its private key cannot be read. Upload it, or have one ordered',
  },
  '/api_keys': { called: 'API key', why: 'its token cannot be read. Create another one' },
  '/bot_users': { called: 'bot user', why: 'users and bots are not in a state file. Create it' },
  '/event_subscriptions': { called: 'event subscription', why: 'create a webhook destination instead' },
}

export function importAccount(lists: Lists): Imported {
  const notes = createNotes()
  for (const [path, rows] of Object.entries(lists))
    if (rows === undefined) notes.add(path, "this list is not in the vendor's API, so nothing of it is imported")
  const policies = new Set((lists['/ip_policies'] ?? []).map(({ id }) => String(id)))
  const rules = importRules(lists, policies, notes)
  const backends = new Map<string, Row>(importBackends(lists, notes))
  const authorities = new Map(
    (lists['/certificate_authorities'] ?? []).map(({ id, ca_pem }) => [String(id), String(ca_pem)]),
  )
  const listed = importPolicies(lists, rules, notes)
  const others = [...importDomains(lists, notes), ...importRestrictions(lists, policies, notes)]
  const known: Known = {
    ...{ policies, backends, authorities, notes },
    addPolicy(description, own) {
      const id = `ipp of ${listed.length}`
      policies.add(id)
      listed.push({ ...toThing('ip_policies', { id, description }), rules: own })
      return id
    },
    addResponse(description, fields) {
      const id = `bkdhr of ${backends.size}`
      backends.set(id, { kind: 'http_response_backends', row: { id, description, ...fields } })
      return id
    },
  }
  // These may add policies and backends.
  const edges = [
    ...(lists['/edges/tcp'] ?? []).map((row) => toThing('tcp_edges', importTcpEdge(row, known))),
    ...(lists['/edges/https'] ?? []).map((row) => toThing('https_edges', importHttpsEdge(row, known))),
  ]
  const things = [...listed, ...thingsOf(backends), ...others, ...edges]
  for (const [path, { called, why }] of Object.entries(leftOut))
    for (const row of lists[path as ListPath] ?? []) notes.add(titleOf(called, row), `left out, because ${why}`)
  return { things: withNames(things), notes: notes.lines }
}

const thingsOf = (backends: Backends): Thing[] => [...backends.values()].map(({ kind, row }) => toThing(kind, row))

function importPolicies(lists: Lists, rules: ReadonlyMap<string, Rule[]>, notes: Notes): Thing[] {
  return (lists['/ip_policies'] ?? []).map((row) => {
    const title = titleOf('IP policy', row)
    noteOthers(title, row, [], notes)
    const thing = toThing('ip_policies', { id: row.id, ...annotationsOf(title, row, notes) })
    return { ...thing, rules: rules.get(String(row.id)) ?? [] }
  })
}

/** Gatehouse has one rule per range. If the vendor has two, the deny rule wins there too. */
function importRules(lists: Lists, policies: ReadonlySet<string>, notes: Notes): Map<string, Rule[]> {
  const byPolicy = new Map([...policies].map((id) => [id, new Map<string, Rule>()]))
  for (const row of lists['/ip_policy_rules'] ?? []) {
    const title = titleOf('IP policy rule', row)
    const rules = byPolicy.get(referredId(row.ip_policy) ?? '')
    const cidr = cidrOf(row.cidr)
    if (!rules || !cidr || (row.action !== 'allow' && row.action !== 'deny'))
      throw new Failure(
        'refused',
        `${title} has no policy, action or range that can be imported. Nothing was written.`,
        ['If the account is being changed, run the command again.'],
      )
    noteOthers(title, row, ['ip_policy', 'action', 'cidr'], notes)
    const rule = normalize(ruleSchema, { action: row.action, cidr, ...annotationsOf(title, row, notes) }) as Rule
    const other = rules.get(cidr)
    if (other) notes.add(title, `${referredId(row.ip_policy)} has two rules for ${cidr}; the one that denies is kept`)
    if (!other || rule.action === 'deny') rules.set(cidr, rule)
  }
  return new Map([...byPolicy].map(([id, rules]) => [id, [...rules.values()]]))
}

function importRestrictions(lists: Lists, policies: ReadonlySet<string>, notes: Notes): Thing[] {
  return (lists['/ip_restrictions'] ?? []).flatMap((row) => {
    const title = titleOf('IP restriction', row)
    const ids = ((row.ip_policies ?? []) as unknown[]).map(referredId)
    if (ids.some((id) => id === undefined || !policies.has(id)))
      throw new Failure('refused', `${title} refers to an IP policy that is not in the list. Nothing was written.`, [
        'If the account is being changed, run the command again.',
      ])
    if (ids.length === 0) {
      const state = row.enforced ? 'It is enforced there, so decide what should be refused here' : 'It is not enforced'
      notes.add(title, `left out, because it has no IP policies. ${state}`)
      return []
    }
    noteOthers(title, row, ['type', 'enforced', 'ip_policies'], notes)
    const { id, type, enforced, ip_policies } = row
    const fields = { id, type, enforced: enforced === true, ip_policies, ...annotationsOf(title, row, notes) }
    return [toThing('ip_restrictions', fields)]
  })
}

/** The vendor reserves wildcards separately; here the domain covers them. */
function importDomains(lists: Lists, notes: Notes): Thing[] {
  const things = new Map<string, Thing>()
  for (const row of lists['/reserved_domains'] ?? []) {
    const title = titleOf('reserved domain', row)
    const domain = String(row.domain).toLowerCase().replace(/^\*\./, '')
    const fault = isVendorsName(domain) ? 'is a name of the vendor' : domainFault(domain)
    if (fault) notes.add(title, `left out, because ${domain} ${fault}`)
    if (fault || things.has(domain)) continue
    notes.add(title, `verify ${domain} here, and give it a certificate: neither is imported`)
    things.set(domain, toThing('reserved_domains', { id: row.id, domain, ...annotationsOf(title, row, notes) }))
  }
  return [...things.values()]
}
