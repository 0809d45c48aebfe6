import { deleteInBatches } from '../../db/batches.ts'
import { type Db, many, maybeOne, one, run } from '../../db/pool.ts'
import { nothing, sql } from '../../db/sql.ts'
import type { PlannedChange } from '../../http/route.ts'
import type { Caller } from '../../identity/caller.ts'
import { rfc3339 } from '../../kernel/clock.ts'
import { type Id, newUuid, toUuid, type Uuid } from '../../kernel/ids.ts'
import { rowsToFetch } from '../../kernel/paging.ts'
import type { AnnotationColumns } from '../../operations/annotations.ts'
import type { ChangeSetQuery } from './schema.ts'

/** How what the changes concern was before them: by id, a hash or a revision. */
export type Base = Readonly<Record<string, string>>
export type ChangeSetRow = AnnotationColumns & {
  id: Uuid
  state: 'draft' | 'applied'
  operations: readonly string[]
  author_id: string
  created_at: string
  applied_at: string | null
  applied_by: string | null
  generation: number | null
  changes: readonly PlannedChange[]
  base: Base
  admins_only: boolean
  applied_resources: readonly (string | null)[] | null
  /** Only while it is applied: its caller has confirmed that it is unusual. */
  confirmed?: true
}
type Reader = Pick<Caller, 'accountId' | 'role'>
type Planned = AnnotationColumns & Pick<ChangeSetRow, 'changes' | 'base' | 'admins_only'>

const summary = sql`
  id, description, metadata, state, operations, author_id, created_at, applied_at, applied_by, generation`
const columns = sql`${summary}, changes, base, admins_only, applied_resources`

/** Others than admins do not see what only admins may do. */
const visibleTo = ({ accountId, role }: Reader) =>
  sql`account_id = ${accountId} ${role === 'admin' ? nothing : sql`and not admins_only`}`

const operationsOf = (changes: readonly PlannedChange[]) => changes.map(({ operation }) => operation)

export const insertChangeSet = (
  tx: Db,
  { accountId, ownerId }: Caller,
  { description, metadata, changes, base, admins_only }: Planned,
) =>
  one<ChangeSetRow>(
    tx,
    sql`
    insert into change_sets (account_id, id, description, metadata, operations, changes, base, admins_only, author_id)
    values (${accountId}, ${newUuid()}, ${description}, ${metadata}, ${operationsOf(changes)}::text[],
      ${JSON.stringify(changes)}, ${JSON.stringify(base)}, ${admins_only}, ${ownerId})
    returning ${columns}`,
  )

export const findChangeSet = (db: Db, caller: Reader, id: Id<'chs'>, lock: boolean) =>
  maybeOne<ChangeSetRow>(
    db,
    sql`
    select ${columns} from change_sets
    where ${visibleTo(caller)} and id = ${toUuid(id)} ${lock ? sql`for update` : nothing}`,
  )

export const listChangeSets = (db: Db, caller: Reader, query: ChangeSetQuery) =>
  many<ChangeSetRow>(
    db,
    sql`
    select ${summary} from change_sets
    where ${visibleTo(caller)} ${query.before_id ? sql`and id < ${toUuid(query.before_id)}` : nothing}
      ${query.state ? sql`and state = ${query.state}` : nothing}
    order by id desc
    limit ${rowsToFetch(query)}`,
  )

export const updateChangeSet = (
  tx: Db,
  { accountId }: Reader,
  id: Uuid,
  { description, metadata, changes, base, admins_only }: Planned,
) =>
  one<ChangeSetRow>(
    tx,
    sql`
    update change_sets set description = ${description}, metadata = ${metadata}, changes = ${JSON.stringify(changes)},
      operations = ${operationsOf(changes)}::text[], base = ${JSON.stringify(base)}, admins_only = ${admins_only}
    where account_id = ${accountId} and id = ${id}
    returning ${columns}`,
  )

export const markApplied = (
  tx: Db,
  { accountId, ownerId }: Caller,
  id: Uuid,
  { resources, generation }: { resources: readonly (string | null)[]; generation: number | undefined },
) =>
  one<ChangeSetRow>(
    tx,
    sql`
    update change_sets set state = 'applied', applied_at = now(), applied_by = ${ownerId},
      applied_resources = ${JSON.stringify(resources)}, generation = ${generation ?? null}
    where account_id = ${accountId} and id = ${id}
    returning ${columns}`,
  )

export const deleteChangeSet = (tx: Db, { accountId }: Reader, id: Uuid): Promise<void> =>
  run(tx, sql`delete from change_sets where account_id = ${accountId} and id = ${id}`)

/** How long change sets are kept after they were applied. */
export const appliedDays = 90

export const deleteAppliedBefore = (db: Db, moment: number): Promise<number> =>
  deleteInBatches(db, sql`change_sets`, sql`applied_at < ${rfc3339(moment)}`)
