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

/** Differences that share a generation, and so a transaction: the publisher reads a generation whole. */
const enqueuedAtOnce = 1_000
/** Between two other things of the process: some 2 ms. */
const lookedAtOnce = 5_000
const comparedAtOnce = 100

/**
 * Compares the bucket with the database and puts records that differ, are missing or should be gone into the outbox, to be
 * sent like any change. It repairs a NATS that lost data or was empty, and re-signs what another key had signed.
 * Resolves to the number of records and to the generation with which the last of them was written: once that is sent, the
 * bucket holds everything, and nothing under a generation below `floor`.
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
      // A record may exist while a piece of its policy is missing: a node without that piece could never apply it.
      await natsSink.putBlobs(compiled.flatMap(({ blobs }) => blobs))
      const differing: Compiled[] = []
      await inSlices(compiled, comparedAtOnce, (one) => {
        const found = kept.get(one.key)
        if (!isSame(found, one, asItShouldBe) || counted.isSent(one.key, found?.generation ?? 0)) differing.push(one)
      })
      const held = kind === 'policy' ? await policiesThatLostMost(database, differing, kept, resendBelow) : new Set()
      heldBack.policies.push(...differing.map(({ key }) => key).filter((key) => held.has(key)))
      // What cannot be compiled now stays as nodes have it.
      if (compiled.length < changed.length || held.size > 0) isEverythingSent = false
      const accounts = new Map(changed.map(({ key, accountId }) => [key, accountId]))
      const sentAgain = differing.map(({ key }) => key).filter((key) => !held.has(key))
      await countLive(counted, kept, all, sentAgain)
      for (const { key } of all) kept.delete(key)
      await enqueue(sentAgain.map((key) => ({ key, accountId: accounts.get(key) as Uuid })))
    }
  }
  // What is left is in the bucket and not in the database: gone, unless the bucket says so already.
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
  // Some changes that had not ended when this began may have been missed: they come under later generations.
  const floor = isEverythingSent ? Math.min(resendBelow, settled) : 0
  return { healed, removed: garbage.length, generation, floor, heldBack }
}

type Options = {
  context?: CompileContext
  /** Gets the live records that stay in the bucket as they are. */
  live?: Pick<LiveComparison, 'isSent' | 'found'>
  /** Keys whose entries nodes refused. Only their signatures are checked: those of all records would take too long. */
  suspects?: Iterable<string>
}
const uncounted = { isSent: () => false, found: () => {} }

/** Includes those that cannot be compiled, are held back, or are of a kind that only a later version knows. */
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
 * Looks for what the bucket has and the database does not, before anything is changed: throws if that is most of the
 * installation, and notes the accounts of which it is most. Resolves to the owners of what is missing, as far as known.
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
  // What was sent before the operator ran 'after-restore' is older than the database that is now the right one.
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

/** Policies that differ from the bucket and lost most of their rules without a change that explains it. */
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
/** What a comparison needs of a record in the bucket. The value is its hash, and null where the thing is gone; `rules` is how many a policy has. */
type Fingerprint = {
  signedBy: string
  generation: number
  value: string | null
  rules?: number
  /** The database has it, too. */
  isLiving: boolean
}

type Contents = Pick<EdgeRecord, 'value'> & { [Beside in 'rules' | 'expiring']?: EdgeRecord[Beside] | undefined }
const hashOf = ({ value, rules, expiring }: Contents): string | null => {
  const beside = [...(rules ? [rules] : []), ...(expiring ? [expiring] : [])]
  return value && hash('sha256', JSON.stringify(beside.length > 0 ? [value, ...beside] : value), 'base64')
}

/**
 * Undefined for what no record can be read from, and for the record of another key: a copy of one with the same value is
 * properly signed, and nodes refuse it.
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
