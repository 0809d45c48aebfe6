import { type DeliveryKey, openForNode, openPrivateKey } from '../../distribution/delivery.ts'
import {
  certificateContext,
  type EdgeRecord,
  kindOf,
  type RecipientRecord,
  type RecordKey,
} from '../../distribution/records.ts'
import { type Clock, rfc3339 } from '../../kernel/clock.ts'
import type { CertificateCounts } from '../../kernel/edge/edge_nodes.ts'
import type { NodeKey } from '../disk/node_key.ts'
import type { Refusals } from '../refusals.ts'
import { type Claim, createNameClaims } from './name_claims.ts'
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
/** HAProxy needs some milliseconds for each. */
const namesAtOnce = 50

/**
 * Which certificate stands for which name, from the records: compared again whenever one of them changes, so that it does
 * not matter in which order a certificate and the key that decrypts it arrive.
 *
 * Only the names in the record count, which are the account's own; what else a certificate claims to be for is not looked at.
 */
export function createCertificates(parts: Parts) {
  const { known, names, refusals } = parts
  const claims = createNameClaims(known)
  /** Could not be decrypted or used when last looked at, and why. */
  const waiting = new Map<RecordKey, string>()
  let taken = names.taken()
  const uncovered = createUncoveredNames(known, names, parts.clock)

  function claim(key: RecordKey): Set<string> {
    const touched = claims.update(key)
    if (claims.of(key).length === 0) note(key, undefined)
    return touched
  }

  /**
   * Takes the certificates it has applied out of `pending`, in batches: a change that denies an address must not wait
   * until ten thousand certificates are loaded.
   */
  async function apply(pending: Set<RecordKey>): Promise<void> {
    const before = taken
    taken = names.taken()
    for (const name of changedNames(before, taken)) {
      const holder = claims.holder(name)
      if (holder) pending.add(holder.key)
    }
    for (const key of pending) if (kindOf(key) === 'recipient') for (const each of waiting.keys()) pending.add(each)
    const applied: RecordKey[] = []
    const touched = new Set<string>()
    for (const key of pending) {
      applied.push(key)
      if (kindOf(key) === 'certificate') for (const name of claim(key)) touched.add(name)
      if (touched.size >= namesAtOnce) break
    }
    if (touched.size > 0) await serve(touched)
    for (const key of applied) pending.delete(key)
  }

  async function serve(touched: ReadonlySet<string>): Promise<void> {
    const { set, del, faults: unusable } = decide(touched, { ...parts, claims, taken })
    for (const [key, fault] of unusable) note(key, fault)
    const faults = set.length || del.length ? await names.serve({ set, del }) : []
    uncovered.servedChanged()
    const certificateOf = new Map(set.map(({ name, certificate }) => [name, certificate]))
    for (const { name, fault } of faults) note(`certificate.${certificateOf.get(name)}`, fault)
  }

  function note(key: RecordKey, fault: string | undefined): void {
    const generation = known.get(key)?.generation ?? 0
    const told = `${generation} ${fault}`
    if (fault === undefined) refusals.accept(key, generation)
    else if (waiting.get(key) !== told) refusals.refuse({ key, generation, reason: fault })
    if (fault === undefined) waiting.delete(key)
    else waiting.set(key, told)
  }

  return {
    apply,
    /** The operator's files have other names now. */
    isDue: (): boolean => names.taken() !== taken,
    /**
     * When the node starts: what the proxy serves from its disk becomes what the records say. Resolves to the certificates
     * that it does not serve yet, which are left to be applied.
     */
    async load(): Promise<RecordKey[]> {
      taken = names.taken()
      const served = names.served()
      const missing: RecordKey[] = []
      for (const key of known.keys()) {
        if (['https', 'route'].includes(kindOf(key))) uncovered.note(key)
        if (kindOf(key) === 'certificate' && claim(key).difference(served).size > 0) missing.push(key)
      }
      if (served.size > 0) await serve(new Set(served.keys()))
      return missing
    },
    state: () => ({ ...countsOf(names, waiting.size), ...uncovered.state() }),
    /** An HTTPS edge or a route has changed, and names may be others or of another account. */
    edgeChanged: uncovered.note,
    lookForFiles: names.lookForFiles,
  }
}
export type Certificates = ReturnType<typeof createCertificates>

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

/** Names that the operator has a file for since the last time, or no longer has. */
function changedNames(before: ReadonlyMap<string, string>, after: ReadonlyMap<string, string>): Set<string> {
  return before === after ? new Set() : new Set(before.keys()).symmetricDifference(new Set(after.keys()))
}

type Deciding = Parts & { claims: ReturnType<typeof createNameClaims>; taken: ReadonlyMap<string, string> }
/** What is served for each of these names, and what is wrong with the certificates that claim them, if anything is. */
function decide(touched: ReadonlySet<string>, { claims, taken, names, ...parts }: Deciding) {
  const keys = deliveryKeys(parts)
  const served = names.served()
  const set: ServedName[] = []
  const del: string[] = []
  const opened = new Map<RecordKey, Opened>()
  const faults = new Map<RecordKey, string | undefined>()
  for (const name of touched) {
    const holder = claims.holder(name)
    const file = taken.get(name)
    const found = holder && (opened.get(holder.key) ?? openCertificate(holder, keys))
    if (holder && found) opened.set(holder.key, found)
    if (holder && found && !faults.get(holder.key)) faults.set(holder.key, 'fault' in found ? found.fault : undefined)
    if (holder && file !== undefined) {
      const shadowed = `for ${name}, this node serves the certificate in ${file} of its operator instead`
      faults.set(holder.key, faults.get(holder.key) ?? shadowed)
      if (served.has(name)) del.push(name)
    } else if (holder && found && 'pem' in found)
      set.push({ name, certificate: idOf(holder.key), except: holder.value.except ?? [], pem: found.pem })
    // What another certificate was served with must not outlive that one's right to the name.
    else if (served.has(name) && served.get(name)?.certificate !== (holder && idOf(holder.key))) del.push(name)
  }
  return { set, del, faults }
}

export const notAccepted =
  'this node has not been sent the key that decrypts it. If /edge_nodes says that its key is waiting, accept the key'

type Keys = ReadonlyMap<string, DeliveryKey | string>

/** The keys that were sent to this node, by id; a text says why one cannot be used. */
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

function openCertificate({ key, value }: Claim, keys: Keys): Opened {
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
