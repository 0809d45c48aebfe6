import { hash } from 'node:crypto'
import { progressKey } from '../distribution/channels.ts'
import {
  type EdgeRecord,
  kindOf,
  type PolicyRecord,
  type RecordKey,
  type RecordKind,
  recordKinds,
} from '../distribution/records.ts'
import { isGeneration, isRecordKey } from '../distribution/validate.ts'
import { inSlices } from '../kernel/flow/in_slices.ts'
import { firstUuidOf, type Id, toId, toUuid, type Uuid } from '../kernel/ids.ts'
import { isForged, removeGarbage } from './bucket/garbage.ts'
import type { LiveComparison } from './bucket/live_records.ts'
import type { NatsSink } from './bucket/nats_sink.ts'
import type { PublisherDatabase } from './database.ts'
import {
  accountsThatLackMost,
  type HeldBack,
  isMostOfInstallationMissing,
  lostMostRules,
  mayLack,
  ownershipOf,
  rulesIn,
} from './missing_guard.ts'
import type { Changed, CompileContext } from './records/changed.ts'
import type { Compiled } from './records/compile.ts'

/** Differences per generation, and so per transaction: the publisher reads a generation whole. */
const enqueuedAtOnce = 1_000
/** Records compared before other work of the process runs: some 2 ms. */
const lookedAtOnce = 5_000
const comparedAtOnce = 100

/**
 * Compares the bucket with the database, and puts records that differ, are missing or should be gone into the outbox, to
 * be sent like any change. This repairs a NATS that lost data or was empty, and re-signs records of another key.
 * Resolves to the number of records and to the last generation used: once that is sent, the bucket holds everything, and
 * nothing below the generation `floor`.
 */
export async function reconcile(
  database: PublisherDatabase,
  natsSink: NatsSink,
  signingKeyId: string,
  now: number,
  signal: AbortSignal,
  { context = {}, live: counted = uncounted, suspects = [] }: Options = {},
): Promise<{ healed: number; removed: number; generation: number; floor: number; heldBack: HeldBack }> {
  const kept = await natsSink.contents(fingerprint)
  const keys = await database.trustedKeys()
  for (const key of suspects) if (kept.get(key) && (await isForged(natsSink, key, keys))) kept.set(key, undefined)
  const settled = await database.settled()
  const resendBelow = await database.resendBelow()
  const asItShouldBe = { signingKeyId, resendBelow }
  await natsSink.refreshBlobs()
  kept.delete(progressKey)
  const heldBack: HeldBack = { accounts: new Map(), policies: [] }
  const owners = await findMissing(database, natsSink, kept, resendBelow, heldBack)
  let healed = 0
  let generation = 0
  let isEverythingSent = heldBack.accounts.size === 0
  const enqueue = async (changed: readonly Changed[]) => {
    for (let at = 0; at < changed.length; at += enqueuedAtOnce)
      generation = await database.enqueue(changed.slice(at, at + enqueuedAtOnce))
    healed += changed.length
  }
  for (const kind of Object.keys(recordKinds) as RecordKind[]) {
    for await (const all of database.living(kind)) {
      signal.throwIfAborted()
      const { accounts: heldAccounts } = heldBack
      const changed =
        heldAccounts.size > 0 ? all.filter(({ accountId }) => !heldAccounts.has(toId('ac', accountId))) : all
      const compiled = await database.compile(changed, now, context)
      // A record may exist while a piece of its policy is missing, and a node without the piece could never apply it.
      await natsSink.putBlobs(compiled.flatMap(({ blobs }) => blobs))
      const differing: Compiled[] = []
      await inSlices(compiled, comparedAtOnce, (one) => {
        const found = kept.get(one.key)
        if (!isSame(found, one, asItShouldBe) || counted.isSent(one.key, found?.generation ?? 0)) differing.push(one)
      })
      const held = kind === 'policy' ? await policiesThatLostMost(database, differing, kept, resendBelow) : new Set()
      heldBack.policies.push(...differing.map(({ key }) => key).filter((key) => held.has(key)))
      // Nodes keep a record that cannot be compiled now.
      if (compiled.length < changed.length || held.size > 0) isEverythingSent = false
      const accounts = new Map(changed.map(({ key, accountId }) => [key, accountId]))
      const sentAgain = differing.map(({ key }) => key).filter((key) => !held.has(key))
      await countLive(counted, kept, all, sentAgain)
      for (const { key } of all) kept.delete(key)
      await enqueue(sentAgain.map((key) => ({ key, accountId: accounts.get(key) as Uuid })))
    }
  }
  // The remaining records are in the bucket but not in the database: deleted, unless the bucket has a tombstone already.
  const garbage = await removeGarbage(natsSink, kept, keys)
  for (const key of garbage) kept.delete(key)
  const gone = [...kept]
    .filter(([key, found]) => isRecordKey(key) && !isSame(found, { value: null }, asItShouldBe))
    .map(([key]) => key as RecordKey)
    .filter((key) => !heldBack.accounts.has(owners.get(key) as Id<'ac'>))
  const left = [...kept.keys()].map((key) => ({ key }))
  await countLive(counted, kept, left, gone)
  await enqueue(gone.map((key) => ({ key, accountId: firstUuidOf(0) })))
  await natsSink.sweepBlobs()
  // May have missed changes that were uncommitted at the start; these have later generations.
  const floor = isEverythingSent ? Math.min(resendBelow, settled) : 0
  return { healed, removed: garbage.length, generation, floor, heldBack }
}

type Options = {
  context?: CompileContext
  /** Receives the live records that stay unchanged in the bucket. */
  live?: Pick<LiveComparison, 'isSent' | 'found'>
  /** Keys whose entries nodes refused. Only their signatures are checked: checking all would take too long. */
  suspects?: Iterable<string>
}
const uncounted = { isSent: () => false, found: () => {} }

/** Includes records that cannot be compiled, are held back, or whose kind only a later version knows. */
async function countLive(
  counted: Pick<LiveComparison, 'found'>,
  kept: Kept,
  all: readonly { key: string }[],
  sentAgain: readonly string[],
): Promise<void> {
  const isSentAgain = new Set(sentAgain)
  await inSlices(all, comparedAtOnce, ({ key }) => {
    const found = kept.get(key)
    if (found && found.value !== null && !isSentAgain.has(key)) counted.found(key, found.generation)
  })
}

type Kept = ReadonlyMap<string, Fingerprint | undefined>

/**
 * Finds records of the bucket that the database lacks, before anything changes. Throws if that is most of the
 * installation, and notes accounts that lack most of their records. Resolves to the owners of the missing records, as
 * far as known.
 */
async function findMissing(
  database: PublisherDatabase,
  natsSink: NatsSink,
  kept: Kept,
  resendBelow: number,
  heldBack: HeldBack,
): Promise<Map<RecordKey, Id<'ac'>>> {
  const present = new Map<Uuid, number>()
  for (const kind of Object.keys(recordKinds) as RecordKind[])
    for await (const page of database.living(kind))
      for (const { key, accountId } of page) {
        const found = kept.get(key)
        if (found) found.isLiving = true
        present.set(accountId, (present.get(accountId) ?? 0) + 1)
      }
  const missing = new Map<RecordKey, Fingerprint>()
  await inSlices(kept, lookedAtOnce, ([key, found]) => {
    if (found && found.value !== null && !found.isLiving && isRecordKey(key)) missing.set(key as RecordKey, found)
  })
  if (missing.size <= mayLack.account) return new Map()
  for (const key of await database.changedSince(missing)) missing.delete(key)
  const owners = new Map<RecordKey, Id<'ac'>>()
  for (const found of (await natsSink.contents(ownershipOf)).values())
    for (const key of found?.keys ?? []) if (missing.has(key)) owners.set(key, found?.account as Id<'ac'>)
  const moves = await database.moves(0)
  for (const [key, owner] of owners)
    if ((moves.get(toUuid(owner)) ?? 0) > (missing.get(key)?.generation ?? 0)) {
      missing.delete(key)
      owners.delete(key)
    }
  refuseIfMostIsMissing(
    natsSink.bucket,
    missing.size,
    present.values().reduce((sum, count) => sum + count, 0),
  )
  // Records from before the operator ran 'after-restore' are older than the database that is now valid.
  for (const [key, { generation }] of missing)
    if (generation < resendBelow) {
      missing.delete(key)
      owners.delete(key)
    }
  const byAccount = new Map([...present].map(([account, count]) => [toId('ac', account), count]))
  heldBack.accounts = accountsThatLackMost(owners.values(), byAccount)
  return owners
}

function refuseIfMostIsMissing(bucket: string, missing: number, present: number): void {
  if (!isMostOfInstallationMissing({ missing, present })) return
  throw new Error(
    `the database lacks ${missing} resources that edges serve and has only ${present}. Is it the right database? Nothing was removed from the edges. If it is right, delete the bucket ${bucket} in NATS`,
  )
}

/** Policies that differ from the bucket and have lost most of their rules without a change that explains it. */
async function policiesThatLostMost(
  database: PublisherDatabase,
  differing: readonly Compiled[],
  kept: Kept,
  resendBelow: number,
): Promise<Set<RecordKey>> {
  const shrunk = new Map<RecordKey, Fingerprint>()
  for (const { key, value, rules } of differing) {
    const found = kept.get(key)
    const now = value ? rulesIn(value as PolicyRecord, rules) : 0
    if (found?.rules !== undefined && found.generation >= resendBelow && lostMostRules(found.rules, now))
      shrunk.set(key, found)
  }
  if (shrunk.size > 0) for (const key of await database.changedSince(shrunk)) shrunk.delete(key)
  return new Set(shrunk.keys())
}

type Wanted = { signingKeyId: string; resendBelow: number }
/**
 * The part of a bucket record that a comparison needs. `value` is its hash, or null for a tombstone; `rules` is a
 * policy's number of rules.
 */
type Fingerprint = {
  signedBy: string
  generation: number
  value: string | null
  rules?: number
  /** The database has the record too. */
  isLiving: boolean
}

type Contents = Pick<EdgeRecord, 'value'> & { [Beside in 'rules' | 'expiring']?: EdgeRecord[Beside] | undefined }
const hashOf = ({ value, rules, expiring }: Contents): string | null => {
  const beside = [...(rules ? [rules] : []), ...(expiring ? [expiring] : [])]
  return value && hash('sha256', JSON.stringify(beside.length > 0 ? [value, ...beside] : value), 'base64')
}

/**
 * Undefined for unreadable records, and for one that is stored under another key: its signature is valid, but nodes
 * refuse it.
 */
function fingerprint(text: string, key: string): Fingerprint | undefined {
  try {
    const { payload, key: signedBy } = JSON.parse(text)
    const { key: name, generation, value, rules, expiring }: EdgeRecord = JSON.parse(payload)
    if (name !== key || typeof signedBy !== 'string' || !isGeneration(generation)) return undefined
    const isPolicy = value && kindOf(name) === 'policy'
    return {
      signedBy,
      generation,
      value: hashOf({ value, rules, expiring }),
      isLiving: false,
      ...(isPolicy && { rules: rulesIn(value as PolicyRecord, rules) }),
    }
  } catch {
    return undefined
  }
}

const isSame = (found: Fingerprint | undefined, contents: Contents, wanted: Wanted): boolean =>
  found?.signedBy === wanted.signingKeyId && found.generation >= wanted.resendBelow && found.value === hashOf(contents)
