import { type Db, many } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import type { EdgeRecord, PolicyRecord, RecordKey, RecordKind } from '../distribution/records.ts'
import { type BackendId, type BackendKind, backendKindOf } from '../kernel/edge/backends.ts'
import type { Id } from '../kernel/ids.ts'

/**
 * A wrong, empty or damaged database must not take edges down. Real deletions arrive through the outbox, so the
 * comparison of bucket and database alone rarely finds much missing. It therefore changes nothing where more than half
 * is missing, and more than these numbers: of the installation, of an account, or of a policy's rules.
 */
export const mayLack = { installation: 100, account: 20, policy: 20 }

const isUnusual = (of: keyof typeof mayLack, missing: number, left: number): boolean =>
  missing > mayLack[of] && missing > left

export type Missing = { missing: number; present: number }

/** Differences that a comparison did not apply, because the database might be at fault. */
export type HeldBack = { accounts: Map<Id<'ac'>, Missing>; policies: RecordKey[] }

const shown = 3

/** For the log and /readyz; undefined if nothing is held back. */
export function describeHeldBack({ accounts, policies }: HeldBack): string | undefined {
  const lacking = [...accounts].map(
    ([account, { missing, present }]) =>
      `the database lacks ${missing} resources of ${account} that edges serve, and has ${present}`,
  )
  const shrunk = policies.map((key) => `${key.slice('policy.'.length)} has lost most of its rules in the database`)
  const all = [...lacking, ...shrunk]
  if (all.length === 0) return undefined
  const more = all.length > shown ? `, and ${all.length - shown} more such findings` : ''
  return `${all.slice(0, shown).join('; ')}${more}, without a change that explains it. Edge nodes keep what they have. If the database is right, run 'gatehouse after-restore'`
}

export const countHeldBack = ({ accounts, policies }: HeldBack): number => accounts.size + policies.length

export const isMostOfInstallationMissing = ({ missing, present }: Missing): boolean =>
  isUnusual('installation', missing, present)

/**
 * Accounts that lack most of their records. `owners` has the account of each missing record, as far as the bucket knows
 * it.
 */
export function accountsThatLackMost(
  owners: Iterable<Id<'ac'>>,
  present: ReadonlyMap<Id<'ac'>, number>,
): Map<Id<'ac'>, Missing> {
  const missing = new Map<Id<'ac'>, number>()
  for (const owner of owners) missing.set(owner, (missing.get(owner) ?? 0) + 1)
  const counted = [...missing].map(
    ([account, count]) => [account, { missing: count, present: present.get(account) ?? 0 }] as const,
  )
  return new Map(counted.filter(([, { missing, present }]) => isUnusual('account', missing, present)))
}

/** An IPv4 rule starts and ends a range; each end has an address and an id in the rule file. */
const bytesOfRule = 2 * (4 + 16)

export const rulesIn = (value: { bytes: number }, rules: PolicyRecord | undefined): number =>
  (rules ?? value).bytes / bytesOfRule

export const lostMostRules = (before: number, now: number): boolean => isUnusual('policy', before - now, now)

/** The records that have changed since their generation in the bucket, which explains any difference. */
export async function changedSince(
  db: Db,
  inBucket: ReadonlyMap<RecordKey, { generation: number }>,
): Promise<Set<RecordKey>> {
  const entries = [...inBucket]
  const rows = await many<{ key: RecordKey }>(
    db,
    sql`
    select distinct o.key from outbox o join unnest(
      ${entries.map(([key]) => key)}::text[], ${entries.map(([, { generation }]) => generation)}::bigint[]
    ) as b (key, generation) on o.key = b.key and o.generation > b.generation`,
  )
  return new Set(rows.map(({ key }) => key))
}

export type Ownership = { account: Id<'ac'>; keys: RecordKey[] }

/** The account of a record and the ids that it references. Undefined if the record does not name them. */
export function ownershipOf(text: string): Ownership | undefined {
  try {
    const { key, value } = JSON.parse(JSON.parse(text).payload) as EdgeRecord
    if (!value) return undefined
    if (key.startsWith('restrictions.')) return { account: key.slice('restrictions.'.length) as Id<'ac'>, keys: [key] }
    if (!('account' in value)) return undefined
    const { edge, backend, policies } = value as {
      edge?: string
      backend?: BackendId | null
      policies?: string[] | null
    }
    const named = [
      ...(edge ? [`https.${edge}`, `mutual_tls.${edge}`] : []),
      ...(backend ? [keyOfBackend(backend)] : []),
      ...(policies ?? []).map((id) => `policy.${id}`),
    ]
    return { account: value.account, keys: [key, ...named] as RecordKey[] }
  } catch {
    return undefined
  }
}

const recordKinds: Record<BackendKind, RecordKind> = {
  static: 'backend',
  weighted: 'weighted',
  failover: 'failover',
  http_response: 'response',
}
const keyOfBackend = (id: BackendId): string => `${recordKinds[backendKindOf(id)]}.${id}`
