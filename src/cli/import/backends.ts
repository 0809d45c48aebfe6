import { maxMembers, maxWeight } from '../../kernel/edge/backends.ts'
import { responseFault } from '../../kernel/edge/fixed_response.ts'
import { parseHostport } from '../../kernel/edge/hostport.ts'
import type { Json, Kind } from '../state/kinds.ts'
import type { Lists } from './ngrok_api.ts'
import { annotationsOf, type Notes, noteOthers, textsOf, titleOf } from './notes.ts'

export type Row = { readonly kind: Kind; readonly row: Json }
/** Backends by the vendor's id. Other backends cannot be referenced. */
export type Backends = ReadonlyMap<string, Row>

export function importBackends(lists: Lists, notes: Notes): Backends {
  const backends = new Map<string, Row>()
  const each = (
    rows: readonly Json[] | undefined,
    kind: Kind,
    called: string,
    known: readonly string[],
    read: (row: Json) => Json | string,
  ): void => {
    for (const row of rows ?? []) {
      const title = titleOf(called, row)
      const fields = read(row)
      if (typeof fields === 'string') notes.add(title, `left out, because ${fields}`)
      else {
        noteOthers(title, row, known, notes)
        backends.set(String(row.id), { kind, row: { id: row.id, ...annotationsOf(title, row, notes), ...fields } })
      }
    }
  }
  const groups = ['backends']
  const response = ['status_code', 'headers', 'body']
  each(lists['/backends/static'], 'backends', 'static backend', ['address', 'tls'], staticBackend)
  each(lists['/backends/http_response'], 'http_response_backends', 'HTTP response backend', response, responseBackend)
  each(lists['/backends/weighted'], 'weighted_backends', 'weighted backend', groups, (row) => weighted(row, backends))
  each(lists['/backends/failover'], 'failover_backends', 'failover backend', groups, (row) => failover(row, backends))
  const why = 'its agents connect to the vendor. Create a static backend with the address of the upstream'
  each(lists['/backends/tunnel_group'], 'backends', 'tunnel group backend', [], () => why)
  return backends
}

function staticBackend({ address, tls }: Json): Json | string {
  const fault = typeof address === 'string' ? parseHostport(address) : 'must be text'
  if (typeof fault === 'string') return `its address ${fault}`
  return { address, tls: { enabled: (tls as { enabled?: unknown } | null)?.enabled === true } }
}

function responseBackend(row: Json): Json | string {
  const { status_code = 200, headers, body } = row
  const own = { status: Number(status_code), headers: Object.entries(stringsIn(headers)), body: String(body ?? '') }
  const found = responseFault(own)
  if (found) return `its ${found.place} ${found.fault}`
  return { status_code: own.status, headers: Object.fromEntries(own.headers), body: own.body }
}

export const stringsIn = (value: unknown): Record<string, string> =>
  Object.fromEntries(Object.entries(value ?? {}).map(([name, each]) => [name, String(each)]))

function weighted({ backends: members }: Json, known: Backends): Json | string {
  const weights = Object.entries((members ?? {}) as Record<string, unknown>)
  const fault = membersFault(
    weights.map(([id]) => id),
    known,
    () => false,
  )
  if (fault) return fault
  const isWeight = (value: unknown) => Number.isInteger(value) && Number(value) >= 0 && Number(value) <= maxWeight
  if (!weights.every(([, weight]) => isWeight(weight))) return `a weight is not from 0 to ${maxWeight}`
  return { backends: Object.fromEntries(weights) }
}

function failover({ backends: members }: Json, known: Backends): Json | string {
  const ids = textsOf(members)
  const fault = membersFault(ids, known, (id, isLast) => isLast && known.get(id)?.kind === 'http_response_backends')
  return fault ?? { backends: ids }
}

function membersFault(
  ids: readonly string[],
  known: Backends,
  alsoAllowed: (id: string, isLast: boolean) => boolean,
): string | undefined {
  if (ids.length === 0 || ids.length > maxMembers)
    return `it has ${ids.length} members, and here it has 1 to ${maxMembers}`
  if (new Set(ids).size < ids.length) return 'it has a member twice'
  // Without one of its members, the group would be a different backend.
  const strange = ids.find(
    (id, index) => known.get(id)?.kind !== 'backends' && !alsoAllowed(id, index === ids.length - 1),
  )
  return strange && `its member ${strange} cannot be a member here, or is left out`
}

/** TCP edges cannot answer with HTTP. */
export function answersHttp(id: string, backends: Backends): boolean {
  const { kind, row } = backends.get(id) ?? {}
  return (
    kind === 'http_response_backends' ||
    (kind === 'failover_backends' && textsOf(row?.backends).some((member) => answersHttp(member, backends)))
  )
}
