import { isExpected } from '../../kernel/expected_states.ts'
import { type Connection, call } from '../call.ts'
import { Failure } from '../exits.ts'
import { printable } from '../output/terminal.ts'

/** As the API has it. The command adds nothing to it: what is missing is unknown. */
export type Status = { state: 'up' | 'degraded' | 'down' | 'unknown'; code: string; reason: string }
/** The API's states, and `warning` for something that works but needs attention. */
export type Standing = Status['state'] | 'warning'
export type Part = {
  part:
    | 'API'
    | 'publisher'
    | 'edge nodes'
    | 'certificates'
    | 'backup'
    | 'this machine'
    | 'edges'
    | 'backends'
    | 'domains'
    | 'TLS certificates'
    | 'webhooks'
  /** The edge node or the resource, if the part refers to one. */
  name?: string
  /** The state is intended, so nothing is wrong. */
  isExpected?: true
  status: Standing
  message: string
}
type Row = { id: string; status?: Status; description?: string; url?: string; domain?: string; address?: string } & {
  hostports?: string[]
  subject_common_name?: string | null
}

const lists: readonly { part: Part['part']; paths: readonly (readonly [path: string, field: string])[] }[] = [
  {
    part: 'edges',
    paths: [
      ['/edges/https', 'https_edges'],
      ['/edges/tcp', 'tcp_edges'],
    ],
  },
  {
    part: 'backends',
    paths: (['static', 'weighted', 'failover'] as const).map((kind) => [`/backends/${kind}`, 'backends'] as const),
  },
  { part: 'domains', paths: [['/reserved_domains', 'reserved_domains']] },
  { part: 'TLS certificates', paths: [['/tls_certificates', 'tls_certificates']] },
  { part: 'webhooks', paths: [['/webhook_destinations', 'webhook_destinations']] },
]

/** Pages of a hundred. What an account has beyond them is not looked at, and the command says so. */
const maxPages = 10
/** Maximum lines of each kind for resources that are not up. */
const maxShown = 20

const severity = ['up', 'unknown', 'degraded', 'down'] as const
export const unspecified: Status = { state: 'unknown', code: '', reason: 'this version of the server does not say' }

/** One line for each kind of resource in the account, and one for each resource that is not up. */
export async function resourceParts(connection: Connection): Promise<Part[]> {
  return (await Promise.all(lists.map((each) => partsOf(connection, each)))).flat()
}

async function partsOf(connection: Connection, { part, paths }: (typeof lists)[number]): Promise<Part[]> {
  try {
    const read = await Promise.all(paths.map(([path, field]) => rowsOf(connection, path, field)))
    const rows = read.flatMap((each) => each.rows)
    return rows.length === 0
      ? []
      : summarize(
          part,
          rows,
          read.some(({ isCut }) => isCut),
        )
  } catch (error) {
    if (!(error instanceof Failure)) throw error
    // A member may not read webhooks, and a narrow key may read less: that is no fault of what it cannot read.
    if (error.exit === 'notAllowed') return []
    return [{ part, status: 'unknown', message: error.message }]
  }
}

async function rowsOf(connection: Connection, path: string, field: string): Promise<{ rows: Row[]; isCut: boolean }> {
  const rows: Row[] = []
  let query: Record<string, string> = {}
  for (let pages = 0; pages < maxPages; pages++) {
    const { text } = await call(connection, { method: 'GET', path, query })
    const body = JSON.parse(text) as Record<string, unknown>
    rows.push(...(body[field] as Row[]))
    if (!body.next_page_uri) return { rows, isCut: false }
    query = Object.fromEntries(new URL(String(body.next_page_uri)).searchParams)
  }
  return { rows, isCut: true }
}

function summarize(part: Part['part'], rows: readonly Row[], isCut: boolean): Part[] {
  const found = rows.map((row) => ({ name: nameOf(row), status: row.status ?? unspecified }))
  const faults = found
    .filter(({ status }) => status.state !== 'up')
    .sort((a, b) => severity.indexOf(b.status.state) - severity.indexOf(a.status.state))
  const counts = severity
    .map((state) => [state, found.filter(({ status }) => status.state === state).length] as const)
    .filter(([, count]) => count > 0)
    .map(([state, count]) => `${count} ${state}`)
  const message = `${counts.reverse().join(', ')}${isCut ? ' of the newest; the rest was not looked at' : ''}`
  const worst = faults[0]?.status
  const isFine = faults.every(({ status }) => isExpected(status))
  const more = faults.length - maxShown
  return [
    { part, status: worst?.state ?? 'up', message, ...(isFine && { isExpected: true }) },
    ...faults.slice(0, maxShown).map(
      ({ name, status }): Part => ({
        ...{ part, name, status: status.state, message: printable(status.reason) },
        ...(isExpected(status) && { isExpected: true }),
      }),
    ),
    ...(more > 0
      ? [{ part, name: `and ${more} more`, status: worst?.state ?? 'unknown', message: 'not shown' } as const]
      : []),
  ]
}

const nameOf = ({ id, description, hostports, domain, url, address, subject_common_name }: Row): string =>
  printable(description ?? hostports?.[0] ?? domain ?? url ?? address ?? subject_common_name ?? id)
