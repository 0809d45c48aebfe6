import { modeOf } from '../../access/module_mode.ts'
import { type Db, type DbPool, many } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { blobName, type Cut, hashOfAllInSlices, type Layout, piecesWithHeader } from '../../distribution/pieces.ts'
import { policyFormat } from '../../distribution/policy_file.ts'
import {
  type ChallengeRecord,
  type HttpsRecord,
  kindOf,
  type MutualTlsRecord,
  type PolicyRecord,
  type RecordKey,
  type RecordKind,
  type RecordValue,
  type RestrictionsRecord,
  type RouteRecord,
  type TcpRecord,
} from '../../distribution/records.ts'
import { type RouteModuleName, routeModuleNames } from '../../distribution/route_modules.ts'
import { ruleFormat } from '../../distribution/rule_file.ts'
import { ruleListLayout } from '../../distribution/rule_list.ts'
import { canonicalAuthorities } from '../../kernel/crypto/authorities.ts'
import { type BackendId, backendKinds } from '../../kernel/edge/backends.ts'
import { type HeaderOperations, inOrder } from '../../kernel/edge/headers.ts'
import type { ConnectionLimit } from '../../kernel/edge/rate_limit.ts'
import type { RouteTimeouts } from '../../kernel/edge/timeouts.ts'
import { isId, toId, type Uuid } from '../../kernel/ids.ts'
import { type Cell, isServedIn, placedIn } from '../../operations/placement.ts'
import type { StoredModule } from '../../resources/edges/module.ts'
import type { ModuleName } from '../../resources/edges/modules.ts'
import type { MutualTls } from '../../resources/edges/mutual_tls_module.ts'
import { edgeColumns, type RouteRow } from '../../resources/edges/store.ts'
import { compileCellNodes } from '../nodes/counted.ts'
import { compileRecipients, systemAccountId } from '../nodes/node_keys.ts'
import { backendCompilers } from './backend_records.ts'
import { compileCertificates } from './certificate_records.ts'
import {
  type Changed,
  type CompileContext,
  type Compiler,
  ids,
  type PolicyContents,
  unavailable,
  uuidOf,
  type Values,
  wanted,
} from './changed.ts'
import { inlineBytes, sizeFault } from './message_size.ts'
import { compiled as compiledPolicy, type PolicyVersion } from './policy_versions.ts'

export type Compiled = PolicyContents & {
  key: RecordKey
  value: RecordValue | null
  blobs: Buffer[]
  /** The account is not placed in the cell, so the cell must not receive anything about it. */
  isElsewhere?: true
}

/** The current state of each resource in the database. Null, a tombstone, if it was deleted or is not in this cell. */
export async function compileRecords(
  db: DbPool,
  cell: Cell,
  changed: readonly Changed[],
  now: number,
  context: CompileContext = {},
): Promise<Compiled[]> {
  const compiled: Compiled[] = []
  const placed = await placedIn(
    db,
    cell,
    changed.map(({ accountId }) => accountId),
  )
  const isHere = ({ accountId }: Changed) => accountId === systemAccountId || placed.has(accountId)
  for (const { key } of changed.filter((one) => !isHere(one)))
    compiled.push({ key, value: null, blobs: [], isElsewhere: true })
  for (const [kind, ofKind] of Map.groupBy(changed.filter(isHere), ({ key }) => kindOf(key))) {
    const values = await compilers[kind](db, ofKind, now, { ...context, cell })
    for (const { key } of ofKind) {
      const found = values.get(uuidOf(key))
      if (found === unavailable) continue
      const { value = null, blobs = [], ...beside } = found ?? {}
      const record = { key, value, ...beside, blobs }
      const fault = sizeFault(record, context.maxMessageBytes)
      if (fault) context.onUnavailable?.(key, fault)
      else compiled.push(record)
    }
  }
  return compiled
}

type CompiledEdge = RouteRow & { account_id: Uuid; parent_id: Uuid | null }

const edgeRows = (db: Db, kind: 'tcp' | 'https', changed: readonly Changed[], cell: Cell) =>
  many<CompiledEdge>(
    db,
    sql`
    select e.account_id, ${edgeColumns}
    from ${wanted(changed)}
      join edges e on e.account_id = wanted.account_id and e.id = wanted.id and e.kind = ${kind}
    where ${isServedIn(sql`e.cells`, cell)}`,
  )
const routeRows = (db: Db, changed: readonly Changed[], cell: Cell) =>
  many<CompiledEdge>(
    db,
    sql`
    select e.account_id, ${edgeColumns}
    from ${wanted(changed)}
      join edges e on e.account_id = wanted.account_id and e.id = wanted.id and e.kind = 'route'
      join edges p on p.account_id = e.account_id and p.id = e.parent_id
    where ${isServedIn(sql`p.cells`, cell)}`,
  )

/** An edge treats a disabled module as unset. */
const enabled = (row: CompiledEdge, name: ModuleName): StoredModule | undefined =>
  row.modules[name]?.enabled ? row.modules[name] : undefined
const backendOf = (row: CompiledEdge): BackendId | null => {
  const { backend_id: id, backend_kind: kind } = enabled(row, 'backend') ?? {}
  return id && kind ? toId(backendKinds[kind], id) : null
}
/** A TCP edge cannot have an HTTP response. The API refuses it too. */
const tcpBackendOf = (row: CompiledEdge): TcpRecord['backend'] => {
  const id = backendOf(row)
  return id === null || isId('bkdhr', id) ? null : id
}
function policiesOf(row: CompiledEdge): Pick<TcpRecord, 'policies' | 'policies_mode'> {
  const module = enabled(row, 'ip_restriction')
  if (!module) return { policies: null }
  const policies = module.policy_ids.map((id) => toId('ipp', id))
  return { policies, ...(modeOf(module) === 'warn' && { policies_mode: 'warn' }) }
}

function headersOf(row: CompiledEdge, name: 'request_headers' | 'response_headers'): RouteRecord['headers'] {
  const headers = enabled(row, name)?.settings as HeaderOperations | undefined
  return headers ? { add: inOrder(headers.add), remove: [...headers.remove] } : null
}

const settingsOf = (row: CompiledEdge): Pick<RouteRecord, RouteModuleName> =>
  Object.fromEntries(
    routeModuleNames.flatMap((name) => {
      const module = enabled(row, name)
      return module ? [[name, module.settings]] : []
    }),
  )

const withoutNulls = ({ connect_seconds, response_seconds, idle_seconds }: RouteTimeouts) => ({
  ...(connect_seconds !== null && { connect_seconds }),
  ...(response_seconds !== null && { response_seconds }),
  ...(idle_seconds !== null && { idle_seconds }),
})

const compilers: Record<RecordKind, Compiler> = {
  ...backendCompilers,
  certificate: compileCertificates,
  recipient: compileRecipients,
  cell_nodes: compileCellNodes,

  async tcp(db, changed, _now, { cell }) {
    const rows = await edgeRows(db, 'tcp', changed, cell)
    return new Map(
      rows.map((row) => {
        const rate_limit = enabled(row, 'rate_limit')?.settings as ConnectionLimit | undefined
        const value: TcpRecord = {
          account: toId('ac', row.account_id),
          hostports: row.hostports,
          backend: tcpBackendOf(row),
          ...policiesOf(row),
          ...(rate_limit && { rate_limit }),
        }
        return [row.id, { value }]
      }),
    )
  },

  async https(db, changed, _now, { cell }) {
    const rows = await edgeRows(db, 'https', changed, cell)
    const open = rows.filter((row) => !enabled(row, 'mutual_tls'))
    return new Map(open.map((row) => [row.id, { value: { hostports: row.hostports } satisfies HttpsRecord }]))
  },

  async mutual_tls(db, changed, _now, { cell }) {
    const rows = await edgeRows(db, 'https', changed, cell)
    return new Map(
      rows.flatMap((row) => {
        const settings = enabled(row, 'mutual_tls')?.settings as MutualTls | undefined
        if (!settings) return []
        const value: MutualTlsRecord = {
          account: toId('ac', row.account_id),
          hostports: row.hostports,
          mode: settings.mode,
          authorities: canonicalAuthorities(settings.certificate_authorities),
        }
        return [[row.id, { value }] as const]
      }),
    )
  },

  async route(db, changed, _now, { cell }) {
    const rows = await routeRows(db, changed, cell)
    return new Map(
      rows.map((row) => {
        const response_headers = headersOf(row, 'response_headers')
        const value: RouteRecord = {
          account: toId('ac', row.account_id),
          edge: toId('edghts', row.parent_id as Uuid),
          match_type: row.match_type,
          match: row.match,
          backend: backendOf(row),
          ...policiesOf(row),
          headers: headersOf(row, 'request_headers'),
          ...(response_headers && { response_headers }),
          ...settingsOf(row),
          ...(row.encoded_slashes === 'allow' && { encoded_slashes: 'allow' }),
          ...(row.path_variants === 'ignore' && { path_variants: 'ignore' }),
          ...(!row.websocket && { websocket: false }),
          ...(row.timeouts && { timeouts: withoutNulls(row.timeouts) }),
        }
        return [row.id, { value }]
      }),
    )
  },

  async policy(db, changed, now, { findPolicyVersion = compiledPolicy, maxMessageBytes }) {
    const values: Values = new Map()
    for (const { key, accountId } of changed) {
      const id = uuidOf(key)
      const version = await findPolicyVersion(db, accountId, id, now)
      if (!version) continue
      values.set(id, await policyContents(version, accountId, maxMessageBytes))
    }
    return values
  },

  async challenge(db, changed) {
    const rows = await many<ChallengeRecord & { id: Uuid }>(
      db,
      sql`
      select c.id, c.host, c.token, c.answer
      from ${wanted(changed)}
        join acme_challenges c on c.account_id = wanted.account_id and c.id = wanted.id
        join reserved_domains d on d.account_id = c.account_id and d.id = c.domain_id
      where d.status in ('verified', 'failing', 'assigned')`,
    )
    return new Map(rows.map(({ id, ...value }) => [id, { value }]))
  },

  async restrictions(db, changed) {
    const rows = await many<{ account_id: Uuid; id: Uuid; enforced: boolean; policy_ids: Uuid[] }>(
      db,
      sql`
      select r.account_id, r.id, r.enforced,
        array(select p.ip_policy_id from ip_restriction_policies p
              where p.account_id = r.account_id and p.ip_restriction_id = r.id order by p.position) as policy_ids
      from ip_restrictions r
      where r.account_id = any(${ids(changed)}) and r.type = 'endpoints'
      order by r.id`,
    )
    const withEdges = await many<{ account_id: Uuid }>(
      db,
      sql`
      select account_id from unnest(${ids(changed)}::uuid[]) as wanted (account_id)
      where exists (select from edges e where e.account_id = wanted.account_id and e.parent_id is null)`,
    )
    const byAccount = Map.groupBy(rows, ({ account_id }) => account_id)
    const owners = new Set([...byAccount.keys(), ...withEdges.map(({ account_id }) => account_id)])
    return new Map(
      [...owners].map((account) => {
        const sets = (byAccount.get(account) ?? []).map(({ id, enforced, policy_ids }) => ({
          id: toId('ipx', id),
          enforced,
          policies: policy_ids.map((policy) => toId('ipp', policy)),
        }))
        return [account, { value: { sets } satisfies RestrictionsRecord }]
      }),
    )
  },
}

async function policyContents(
  { policy, ...cuts }: PolicyVersion,
  accountId: Uuid,
  maxMessageBytes: number | undefined,
): Promise<PolicyContents & { value: PolicyRecord; blobs: Buffer[] }> {
  const blobs: Buffer[] = []
  const recordOf = async (file: keyof typeof cuts, layout: Layout): Promise<PolicyRecord> => {
    const record = await policyRecord(cuts[file] as Cut, layout, inlineBytes(file, maxMessageBytes))
    blobs.push(...record.blobs)
    return record.value
  }
  return {
    value: await recordOf('decisions', policyFormat),
    rules: await recordOf('rules', ruleFormat(accountId, policy.ruleIds)),
    ...(cuts.ruleList && {
      expiring: { at: policy.validUntil, list: await recordOf('ruleList', ruleListLayout(accountId)) },
    }),
    blobs,
  }
}

async function policyRecord(
  cut: Cut,
  layout: Layout,
  maxInlineBytes: number,
): Promise<{ value: PolicyRecord; blobs: Buffer[] }> {
  const pieces = piecesWithHeader(cut, layout)
  const bytes = pieces.reduce((sum, { length }) => sum + length, 0)
  const common = { hash: await hashOfAllInSlices(pieces), bytes }
  if (bytes <= maxInlineBytes)
    return { value: { ...common, inline: Buffer.concat(pieces).toString('base64') }, blobs: [] }
  return { value: { ...common, chunks: pieces.map(blobName) }, blobs: pieces }
}
