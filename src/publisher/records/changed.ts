import type { DbPool } from '../../db/pool.ts'
import { type SqlFragment, sql } from '../../db/sql.ts'
import type { EdgeRecord, RecordKey, RecordValue } from '../../distribution/records.ts'
import type { SecretsBox } from '../../kernel/crypto/secrets_box.ts'
import { type Id, toUuid, type Uuid } from '../../kernel/ids.ts'
import type { Cell } from '../../operations/placement.ts'
import type { FindPolicyVersion } from './policy_versions.ts'

export type Changed = { key: RecordKey; accountId: Uuid }
/** The resource exists, but cannot be read now: nodes keep what they have. */
export const unavailable = 'unavailable'
/** A missing id means that the resource was deleted. */
export type Values = Map<Uuid, (PolicyContents & { value: RecordValue; blobs?: Buffer[] }) | typeof unavailable>
/** The other parts of a policy's record. */
export type PolicyContents = Pick<EdgeRecord, 'rules' | 'expiring'>
/** Dependencies of the compilers other than the database. */
export type CompileContext = {
  /** Finds a cached policy version; without it, policies are compiled from all their rules. */
  readonly findPolicyVersion?: FindPolicyVersion
  /** Unset if the operator has configured no key. */
  readonly secrets?: SecretsBox
  /** Larger records and pieces are not sent. */
  readonly maxMessageBytes?: number
  readonly onUnavailable?: (key: RecordKey, reason: string) => void
}
/** The same context, which also adds unavailable records to `found`. */
export const notingUnavailable = (context: CompileContext, found: Map<RecordKey, string>): CompileContext => ({
  ...context,
  onUnavailable(key, reason) {
    found.set(key, reason)
    context.onUnavailable?.(key, reason)
  },
})

export type Compiler = (
  db: DbPool,
  changed: readonly Changed[],
  now: number,
  context: CompileContext & { readonly cell: Cell },
) => Promise<Values>

export const uuidOf = (key: RecordKey): Uuid => toUuid(key.slice(key.indexOf('.') + 1) as Id)
export const ids = (changed: readonly Changed[]): Uuid[] => changed.map(({ key }) => uuidOf(key))

/** A table `wanted` with account_id and id, for joins. */
export const wanted = (changed: readonly Changed[]): SqlFragment =>
  sql`unnest(${changed.map(({ accountId }) => accountId)}::uuid[], ${ids(changed)}::uuid[]) as wanted (account_id, id)`
