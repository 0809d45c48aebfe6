import { type DeliveryKey, openForNode, openPrivateKey } from '../../distribution/delivery.ts'
import {
  type CertificateRecord,
  certificateContext,
  type EdgeRecord,
  kindOf,
  type RecipientRecord,
  type RecordKey,
} from '../../distribution/records.ts'
import { type Clock, rfc3339 } from '../../kernel/clock.ts'
import type { CertificateCounts } from '../../kernel/edge/edge_nodes.ts'
import { isId } from '../../kernel/ids.ts'
import type { NodeKey } from '../disk/node_key.ts'
import type { Refusals } from '../refusals.ts'
import { createMutualEdges, type MutualEdges } from './mutual_edges.ts'
import { type Claim, createNameClaims, type NameClaims } from './name_claims.ts'
import type { NameServer, ServedName } from './name_server.ts'
import { createUncoveredNames } from './uncovered_names.ts'

type Parts = {
  clock: Clock
  known: ReadonlyMap<RecordKey, EdgeRecord>
  node: string
  nodeKey: NodeKey
  names: NameServer
  refusals: Pick<Refusals, 'refuse' | 'accept'>
}
/** HAProxy takes some milliseconds for each name. */
const namesAtOnce = 50

/**
 * Chooses the certificate for each name from the records. It decides again whenever a record changes, so a certificate
 * and the key that decrypts it may arrive in any order.
 *
 * Only the names in the record count, because the account holds these. The names inside the certificate are ignored.
 */
export function createCertificates(parts: Parts) {
  const { known, names } = parts
  const claims = createNameClaims<CertificateRecord>(known, ({ names }) => names)
  let taken = names.taken()
  const uncovered = createUncoveredNames(known, names, parts.clock)
  const mutual = createMutualEdges(known)

  const { waiting, note } = createNotes(parts)
  const withDependents = (some: ReadonlySet<string>) => dependentsOf(some, { mutual, claims, names, taken })

  function claim(key: RecordKey): Set<string> {
    const touched = claims.update(key)
    if (claims.of(key).length === 0) note(key, undefined)
    return touched
  }

  /**
   * Applies certificates in batches and removes them from `pending`: a change that denies an address must not wait until
   * ten thousand certificates are loaded.
   */
  async function apply(pending: Set<RecordKey>): Promise<void> {
    const before = taken
    taken = names.taken()
    const holders = [...changedNames(before, taken)].map(claims.holder)
    for (const holder of holders) if (holder) pending.add(holder.key)
    // These names may use the operator's files, with crt-list lines of their own.
    if (before !== taken && !mutual.isEmpty()) await serve(new Set(mutual.names()))
    for (const key of pending) if (kindOf(key) === 'recipient') for (const each of waiting.keys()) pending.add(each)
    const { applied, touched } = batchOf(pending, claim)
    if (touched.size > 0) await serve(touched)
    for (const key of applied) pending.delete(key)
  }

  async function serve(some: ReadonlySet<string>): Promise<void> {
    await serveNames(withDependents(some), { ...parts, claims, taken, mutual, note })
    uncovered.servedChanged()
  }

  /**
   * Must run before the maps change: once the maps list authorities for a name, HAProxy must already ask its clients for
   * a certificate of these.
   */
  async function applyEdges(keys: Iterable<RecordKey>): Promise<void> {
    const touched = new Set<string>()
    for (const key of keys) for (const name of mutual.update(key)) touched.add(name)
    const asks = (name: string) => mutual.find(name) ?? names.served().get(name)?.asks
    const relevant = new Set([...withDependents(touched)].filter(asks))
    if (relevant.size > 0) await serve(relevant)
  }

  return {
    apply,
    applyEdges,
    /** True if the operator's files have changed. */
    isDue: (): boolean => names.taken() !== taken,
    /**
     * Runs when the node starts, and makes the certificates that the proxy has loaded from its disk match the records.
     * Resolves to the certificates that the proxy does not serve yet; the caller applies these later.
     */
    async load(): Promise<RecordKey[]> {
      taken = names.taken()
      const served = names.served()
      const missing: RecordKey[] = []
      for (const key of known.keys()) {
        if (isOfEdges(key) || kindOf(key) === 'route') uncovered.note(key)
        if (kindOf(key) === 'mutual_tls') mutual.update(key)
        if (kindOf(key) === 'certificate' && claim(key).difference(served).size > 0) missing.push(key)
      }
      const all = new Set([...served.keys(), ...mutual.names()])
      if (all.size > 0) await serve(all)
      return missing
    },
    state: () => ({ ...countsOf(names, waiting.size), ...uncovered.state() }),
    /** Call this when an HTTPS edge or a route changes: its names or their account may have changed. */
    edgeChanged: uncovered.note,
    lookForFiles: names.lookForFiles,
  }
}
export type Certificates = ReturnType<typeof createCertificates>

function batchOf(pending: Iterable<RecordKey>, claim: (key: RecordKey) => Set<string>) {
  const applied: RecordKey[] = []
  const touched = new Set<string>()
  for (const key of pending) {
    applied.push(key)
    if (kindOf(key) === 'certificate') for (const name of claim(key)) touched.add(name)
    if (touched.size >= namesAtOnce) break
  }
  return { applied, touched }
}

type Serving = Omit<Deciding, 'ofOperator'> & { note: ReturnType<typeof createNotes>['note'] }
async function serveNames(touched: ReadonlySet<string>, { note, ...parts }: Serving): Promise<void> {
  const ofOperator = await operatorsPem(touched, parts)
  const { set, del, faults: unusable } = decide(touched, { ...parts, ofOperator })
  for (const [key, fault] of unusable) note(key, fault)
  const faults = set.length || del.length ? await parts.names.serve({ set, del }) : []
  const certificateOf = new Map(set.map(({ name, certificate }) => [name, certificate]))
  for (const { name, fault } of faults) {
    const certificate = certificateOf.get(name) ?? ''
    if (isId('cert', certificate)) note(`certificate.${certificate}`, fault)
    else parts.refusals.refuse({ key: 'proxy', generation: null, reason: `${name} cannot be served: ${fault}` })
  }
}

/** Certificates that could not be decrypted or used at the last attempt, and why. */
function createNotes({ known, refusals }: Pick<Parts, 'known' | 'refusals'>) {
  const waiting = new Map<RecordKey, string>()
  function note(key: RecordKey, fault: string | undefined): void {
    const generation = known.get(key)?.generation ?? 0
    const told = `${generation} ${fault}`
    if (fault === undefined) refusals.accept(key, generation)
    else if (waiting.get(key) !== told) refusals.refuse({ key, generation, reason: fault })
    if (fault === undefined) waiting.delete(key)
    else waiting.set(key, told)
  }
  return { waiting: waiting as ReadonlyMap<RecordKey, string>, note }
}

type Served = {
  mutual: MutualEdges
  claims: NameClaims<CertificateRecord>
  names: Pick<NameServer, 'served'>
  taken: ReadonlyMap<string, string>
}
/**
 * Adds names without a certificate of their own that ask clients for something else than their wildcard does: these are
 * served with the wildcard's certificate.
 */
function dependentsOf(touched: ReadonlySet<string>, { mutual, claims, names, taken }: Served): Set<string> {
  const all = new Set(touched)
  if (mutual.isEmpty()) return all
  for (const name of mutual.names()) if (touched.has(wildcardOf(name))) all.add(name)
  const wildcards = new Set([...touched].filter((name) => name.startsWith('*.')))
  if (wildcards.size > 0)
    for (const name of new Set([...claims.names(), ...names.served().keys(), ...taken.keys()]))
      if (wildcards.has(wildcardOf(name))) all.add(name)
  return all
}

function countsOf(names: NameServer, waiting: number): CertificateCounts {
  const served = names.served()
  let first = names.takenUntil()
  for (const { notAfter } of served.values()) first = Math.min(first, notAfter)
  return {
    names: names.taken().size + served.size,
    waiting,
    firstExpiry: Number.isFinite(first) ? rfc3339(first) : null,
  }
}

/** Names that the operator's files have gained or lost since the last call. */
function changedNames(before: ReadonlyMap<string, string>, after: ReadonlyMap<string, string>): Set<string> {
  return before === after ? new Set() : new Set(before.keys()).symmetricDifference(new Set(after.keys()))
}

/** True for records of an HTTPS edge itself; false for its routes. */
export const isOfEdges = (key: RecordKey): boolean => kindOf(key) === 'https' || kindOf(key) === 'mutual_tls'

const wildcardOf = (name: string): string => (name.startsWith('*.') ? '' : `*${name.slice(name.indexOf('.'))}`)

type OfOperator = { names: NameServer; mutual: MutualEdges; taken: ReadonlyMap<string, string> }
/** The operator's files, by file name, for the touched names that ask clients for certificates. */
async function operatorsPem(touched: Iterable<string>, { names, mutual, taken }: OfOperator) {
  const found = new Map<string, string>()
  for (const name of touched) {
    const file = mutual.find(name) && (taken.get(name) ?? taken.get(wildcardOf(name)))
    const pem = file && !found.has(file) ? await names.takenPem(file) : undefined
    if (file && pem !== undefined) found.set(file, pem)
  }
  return found
}

type Deciding = Parts & {
  claims: NameClaims<CertificateRecord>
  taken: ReadonlyMap<string, string>
  mutual: MutualEdges
  ofOperator: ReadonlyMap<string, string>
}
/**
 * Decides which certificate to serve for each of these names, and collects the faults of the certificates that claim
 * them.
 */
function decide(touched: ReadonlySet<string>, { claims, taken, mutual, ofOperator, names, ...parts }: Deciding) {
  const keys = deliveryKeys(parts)
  const served = names.served()
  const set: ServedName[] = []
  const del: string[] = []
  const opened = new Map<RecordKey, Opened>()
  const faults = new Map<RecordKey, string | undefined>()
  function open(holder: Claim<CertificateRecord>): Opened {
    const found = opened.get(holder.key) ?? openCertificate(holder, keys)
    opened.set(holder.key, found)
    if (!faults.get(holder.key)) faults.set(holder.key, 'fault' in found ? found.fault : undefined)
    return found
  }

  /** The certificate that the name would use without mutual TLS. */
  function sourceFor(name: string): Omit<ServedName, 'name'> | undefined {
    for (const each of [name, wildcardOf(name)]) {
      const file = taken.get(each)
      const pem = file === undefined ? undefined : ofOperator.get(file)
      if (pem !== undefined) return { certificate: `file:${file}`, except: [], pem }
      const holder = claims.holder(each)
      if (!holder || (each !== name && holder.value.except?.includes(name))) continue
      const found = open(holder)
      if ('pem' in found)
        return {
          certificate: idOf(holder.key),
          except: each === name ? (holder.value.except ?? []) : [],
          pem: found.pem,
        }
    }
    return undefined
  }

  for (const name of touched) {
    const asks = mutual.find(name)
    if (asks) {
      const source = sourceFor(name)
      if (source) set.push({ name, ...source, asks })
      else if (served.has(name)) del.push(name)
      continue
    }
    const holder = claims.holder(name)
    const file = taken.get(name)
    const found = holder && open(holder)
    if (holder && file !== undefined) {
      const shadowed = `for ${name}, this node serves the certificate in ${file} of its operator instead`
      faults.set(holder.key, faults.get(holder.key) ?? shadowed)
      if (served.has(name)) del.push(name)
    } else if (holder && found && 'pem' in found)
      set.push({ name, certificate: idOf(holder.key), except: holder.value.except ?? [], pem: found.pem })
    // Stops serving a certificate that has lost its right to the name, or a line that still asks clients for a
    // certificate.
    else if (
      served.has(name) &&
      (served.get(name)?.asks || served.get(name)?.certificate !== (holder && idOf(holder.key)))
    )
      del.push(name)
  }
  return { set, del, faults }
}

export const notAccepted =
  'this node has not been sent the key that decrypts it. If /edge_nodes says that its key is waiting, accept the key'

type Keys = ReadonlyMap<string, DeliveryKey | string>

/** The delivery keys that this node has received, by id. A string value says why a key cannot be used. */
function deliveryKeys({ known, node, nodeKey }: Pick<Parts, 'known' | 'node' | 'nodeKey'>): Keys {
  const found = new Map<string, DeliveryKey | string>()
  for (const { key, value } of known.values()) {
    if (value === null || kindOf(key) !== 'recipient') continue
    const recipient = value as RecipientRecord
    if (recipient.node !== node || recipient.public_key !== nodeKey.publicKey) continue
    try {
      found.set(recipient.key_id, openForNode(recipient.key_id, recipient.sealed, nodeKey))
    } catch {
      found.set(recipient.key_id, 'the key that was sent to this node cannot be decrypted with its own')
    }
  }
  return found
}

type Opened = { pem: string } | { fault: string }

function openCertificate({ key, value }: Claim<CertificateRecord>, keys: Keys): Opened {
  const found = keys.get(value.key_id)
  if (found === undefined) return { fault: notAccepted }
  if (typeof found === 'string') return { fault: found }
  try {
    return { pem: value.chain + openPrivateKey(found, certificateContext(idOf(key), value.account), value.key) }
  } catch {
    return { fault: 'its private key cannot be decrypted' }
  }
}

const idOf = (key: RecordKey): string => key.slice(key.indexOf('.') + 1)
